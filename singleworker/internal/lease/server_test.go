package lease_test

import (
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// server is a model of ZooKeeper: the records of the slots, the ephemeral
// nodes of the instances, sessions, and old states for lagging reads.
type server struct {
	w     *world
	zxid  int64
	jobs  map[lease.Slot]*job
	names []lease.Slot
	group []groupState // newest last

	lives    map[int64]int          // the life of the job in which a token was assigned
	sessions map[int64]*session     // of the owner that a Take has relieved, by its transaction
	taken    map[lease.Member]int64 // the latest Take
	relieved map[lease.Member]int   // how often
	signs    map[lease.Member]*sign // of life
}

// job is one slot. When it is deleted and submitted again, it begins a new life, in
// which all versions restart.
type job struct {
	slot    lease.Slot
	life    int
	history []recordState // newest last
	able    []string      // registrations, sorted

	tick        int64
	tickVersion int32
	open        bool                // the run of that tick is in progress, as far as the record tells
	proofs      map[string]*session // the nodes below the tick node, by incarnation
	reliefs     []int64             // the transactions that took the slot by rule (c)
	claimed     map[int64]string    // who claimed each tick of this life
	lastOwner   lease.Member
	moves       int
}

type recordState struct {
	zxid int64
	rec  lease.Record
}

type groupState struct {
	zxid  int64
	peers map[string]lease.Peer // never changed in place
}

// kept is how many old states a node keeps for lagging reads.
const kept = 48

func newServer(w *world) *server {
	return &server{w: w, zxid: 100, jobs: make(map[lease.Slot]*job), lives: make(map[int64]int), sessions: make(map[int64]*session), taken: make(map[lease.Member]int64),
		relieved: make(map[lease.Member]int), signs: make(map[lease.Member]*sign),
		group: []groupState{{peers: map[string]lease.Peer{}}}}
}

func (z *server) add(slot lease.Slot) *job {
	j := &job{slot: slot, history: []recordState{{}}}
	z.jobs[slot] = j
	z.names = append(z.names, slot)
	return j
}

func (j *job) now() lease.Record { return j.history[len(j.history)-1].rec }

func (j *job) at(view int64) lease.Record {
	for i := len(j.history) - 1; i > 0; i-- {
		if j.history[i].zxid <= view {
			return j.history[i].rec
		}
	}
	return j.history[0].rec
}

func (z *server) peersAt(view int64) map[string]lease.Peer {
	for i := len(z.group) - 1; i > 0; i-- {
		if z.group[i].zxid <= view {
			return z.group[i].peers
		}
	}
	return z.group[0].peers
}

func (z *server) peers() map[string]lease.Peer { return z.group[len(z.group)-1].peers }

// put sets the state of j as of the current zxid.
func (z *server) put(j *job, rec lease.Record) {
	before := j.now()
	if len(j.history) >= 2*kept {
		j.history = slices.Clone(j.history[kept:])
	}
	j.history = append(j.history, recordState{z.zxid, rec})
	if before.Exists != rec.Exists || before.Version != rec.Version || len(before.Beats) != len(rec.Beats) {
		z.w.watchSlot(j.slot)
	}
	if rec.Owner != (lease.Member{}) && rec.Owner != j.lastOwner {
		j.moves++
		j.lastOwner = rec.Owner
	}
}

func (z *server) putPeers(change func(peers map[string]lease.Peer)) {
	z.zxid++
	peers := maps.Clone(z.peers())
	change(peers)
	if len(z.group) >= 2*kept {
		z.group = slices.Clone(z.group[kept:])
	}
	z.group = append(z.group, groupState{z.zxid, peers})
	z.w.watchGroup()
}

func beatOf(rec lease.Record, sid string) (int32, bool) {
	for _, b := range rec.Beats {
		if b.SID == sid {
			return b.Version, true
		}
	}
	return 0, false
}

func without(beats []lease.Beat, sid string) []lease.Beat {
	return slices.DeleteFunc(slices.Clone(beats), func(b lease.Beat) bool { return b.SID == sid })
}

func with(beats []lease.Beat, beat lease.Beat) []lease.Beat {
	return append(without(beats, beat.SID), beat)
}

// create submits a job, in a new life if it existed before.
func (z *server) create(j *job) {
	z.zxid++
	j.life++
	j.tick, j.tickVersion, j.open, j.proofs = 0, 0, false, make(map[string]*session)
	j.claimed = make(map[int64]string)
	z.put(j, lease.Record{Exists: true, Mzxid: z.zxid})
	z.w.watchJobs()
}

func (z *server) remove(j *job) {
	z.zxid++
	z.put(j, lease.Record{})
	z.w.watchJobs()
}

// take applies a Take for member.
func (z *server) take(member lease.Member, a lease.Take) (lease.Outcome, lease.Record) {
	z.zxid++
	j := z.jobs[a.Slot]
	rec := j.now()
	if !rec.Exists || rec.Version != a.Version {
		return lease.Refused, rec
	}
	beats := rec.Beats
	for _, b := range a.Remove {
		version, exists := beatOf(rec, b.SID)
		if z.w.mutant != takesWithoutH && (!exists || version != b.Version) {
			return lease.Refused, rec
		}
		beats = without(beats, b.SID)
	}
	if len(without(beats, member.SID)) != len(beats) {
		return lease.Refused, rec // NodeExists
	}
	rec = lease.Record{
		Exists: true, Version: rec.Version + 1, Mzxid: z.zxid, Owner: member, Relieved: a.Relieves,
		Beats: with(beats, lease.Beat{SID: member.SID, Mzxid: z.zxid}),
	}
	if a.Relieves != (lease.Member{}) {
		z.noteRelief(a, j.now().Owner)
	}
	z.put(j, rec)
	z.lives[rec.Mzxid], z.taken[member] = j.life, rec.Mzxid
	return lease.Done, rec
}

func (z *server) beat(sid string, slot lease.Slot, version int32) (lease.Outcome, int32) {
	j := z.jobs[slot]
	rec := j.now()
	current, exists := beatOf(rec, sid)
	if !exists || current != version {
		return lease.Refused, 0
	}
	rec.Beats = with(rec.Beats, lease.Beat{SID: sid, Version: version + 1, Mzxid: z.zxid})
	z.put(j, rec)
	return lease.Done, version + 1
}

func (z *server) release(sid string, a lease.Release) lease.Outcome {
	z.zxid++
	j := z.jobs[a.Slot]
	rec := j.now()
	_, beating := beatOf(rec, sid)
	if !rec.Exists || rec.Version != a.Version || a.Beat && !beating {
		return lease.Refused
	}
	rec.Version, rec.Mzxid, rec.Owner, rec.Offer, rec.Relieved = rec.Version+1, z.zxid, lease.Member{}, a.Offer, lease.Member{}
	if a.Beat {
		rec.Beats = without(rec.Beats, sid)
	}
	z.put(j, rec)
	return lease.Done
}

func (z *server) yield(a lease.Yield) {
	z.zxid++
	j := z.jobs[a.Slot]
	rec := j.now()
	if version, exists := beatOf(rec, a.Beat.SID); exists && version == a.Beat.Version {
		rec.Beats = without(rec.Beats, a.Beat.SID)
		z.put(j, rec)
	}
}

// claim is an owner's request before it runs a tick.
type claim struct {
	slot        lease.Slot
	member      lease.Member
	token       int64
	version     int32 // of alive
	tick        int64
	tickVersion int32
}

// claim applies c and checks the guarantees of claims. It is a heartbeat.
func (z *server) claim(c claim) lease.Claimed {
	z.zxid++
	j := z.jobs[c.slot]
	rec := j.now()
	sameAlive := rec.Exists && rec.Version == c.version
	// Versions restart when a job is submitted again; the existence of the claimant's
	// heartbeat node distinguishes the lives of the job.
	beat, beating := beatOf(rec, c.member.SID)
	if !sameAlive && z.w.mutant != claimsWithoutAlive || !beating && z.w.mutant < claimsWithoutAlive {
		return lease.Claimed{Outcome: lease.Refused}
	}
	if !rec.Exists || j.tickVersion != c.tickVersion {
		return lease.Claimed{Outcome: lease.Refused}
	}
	if by, twice := j.claimed[c.tick]; twice {
		z.w.failf(c.slot, "(2) tick %d claimed by %s and by %s", c.tick, by, c.member.SID)
	}
	if c.member != rec.Owner {
		z.w.failf(c.slot, "(2) tick %d claimed by %s with token %d, the record names %s with %d",
			c.tick, c.member.Incarnation, c.token, rec.Owner.Incarnation, rec.Mzxid)
	}
	j.claimed[c.tick] = c.member.SID
	j.tick, j.open = c.tick, true
	j.tickVersion++
	if beating && z.w.mutant != claimsBesideBeat {
		beat++
		rec.Beats = with(rec.Beats, lease.Beat{SID: c.member.SID, Version: beat, Mzxid: z.zxid})
		z.put(j, rec)
	}
	return lease.Claimed{Outcome: lease.Done, Version: beat, Mzxid: z.zxid}
}

// sign is a node with an instance's sign of life and its earlier states, newest last.
type sign struct {
	history []signState
	of      *session
}

type signState struct {
	zxid   int64
	exists bool
}

// sign writes a sign of life, in the session that has created its node.
func (z *server) sign(who lease.Member, s *session) {
	z.zxid++
	n := z.signs[who]
	if n == nil {
		n = &sign{}
		z.signs[who] = n
	}
	if n.of == nil {
		n.of = s
	}
	n.put(signState{z.zxid, true})
}

// unsign removes a sign of life with its session.
func (z *server) unsign(who lease.Member, s *session) {
	if n := z.signs[who]; n != nil && n.of == s {
		z.zxid++
		n.of = nil
		n.put(signState{z.zxid, false})
	}
}

func (n *sign) put(now signState) {
	if len(n.history) >= 2*kept {
		n.history = slices.Clone(n.history[kept:])
	}
	n.history = append(n.history, now)
}

// signAt is a sign of life as a reading sees it.
func (z *server) signAt(who lease.Member, view int64) lease.Life {
	if n := z.signs[who]; n != nil {
		for _, at := range slices.Backward(n.history) {
			if at.zxid <= view && at.exists {
				return lease.Life{Exists: true, Mzxid: at.zxid}
			} else if at.zxid <= view {
				break
			}
		}
	}
	return lease.Life{}
}

// finish writes the result of a run that was claimed under the token. It needs no ownership, but it
// is never written into the record of another life of the job: an owner checks its heartbeat node,
// and one that no longer owns the slot has a node below the tick node when it reads the record.
func (z *server) finish(slot lease.Slot, token int64, tickVersion int32) lease.Outcome {
	z.zxid++
	j := z.jobs[slot]
	if !j.now().Exists || j.life != z.lives[token] || j.tickVersion != tickVersion {
		return lease.Refused
	}
	j.open = false
	j.tickVersion++
	return lease.Done
}

// isRelieved reports whether the slot was taken by rule (c) after one transaction, and no later
// than another one.
func (j *job) isRelieved(after, until int64) bool {
	return slices.ContainsFunc(j.reliefs, func(at int64) bool { return after < at && at <= until })
}
