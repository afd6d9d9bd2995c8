package owner

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// reading is one slot being read.
type reading struct {
	slot  string
	owner string // whose heartbeat is read together with the record: the owner at the latest reading
	sync  bool
	done  bool

	rec     lease.Record
	err     error
	beats   int      // how many heartbeats there are
	names   []string // of those that have still to be read
	ofOwner zkconn.Stat
}

// readSlots reads the slots of one step together, and signs of life: a group may have thousands.
func (o *Owner) readSlots(asked []*reading, who []lease.Member) {
	signs, epoch := o.livesOf(who), o.Sessions.epoch
	o.loop.Async("read slots", func(ctx context.Context) func() {
		slotReader{o.loop, signs}.fetch(ctx, asked)
		return func() {
			if len(who) > 0 {
				o.member.Departed.Heard(signs.at)
				o.Step(signs.read)
			}
			o.slotsRead(asked, epoch)
		}
	})
}

func (o *Owner) slotsRead(read []*reading, epoch int) {
	for _, r := range read {
		path := o.loop.Tree.Alive(r.slot)
		o.catalog.Report(r.slot, session.ReadError(path, r.err), path)
		if r.err != nil {
			o.loop.Log.Debug("slot not read", "job", r.slot, "err", r.err)
		} else if !r.rec.Exists {
			o.catalog.Repair(r.slot)
		}
		o.Step(lease.SlotRead{Slot: lease.Slot(r.slot), Outcome: outcomeOf(r.err), Record: r.rec})
		o.Sessions.read(r, epoch)
	}
}

// lives are signs of life that are read with slots, in their first request.
type lives struct {
	who   []lease.Member
	reads []zkconn.Read
	read  lease.LivesRead
	at    map[string]time.Time // when they were written, by incarnation
}

// livesOf is the reads of the signs of life of some instances.
func (o *Owner) livesOf(who []lease.Member) *lives {
	l := &lives{who: who, read: lease.LivesRead{Lives: make(map[lease.Member]lease.Life, len(who))}, at: make(map[string]time.Time, len(who))}
	for _, w := range who {
		l.reads = append(l.reads, zkconn.Read{Path: o.loop.Tree.Life(w.Incarnation)})
	}
	return l
}

// take takes in the results of the reads.
func (l *lives) take(results []zkconn.ReadResult) {
	l.read.Outcome = lease.Done
	for i, r := range results {
		switch {
		case r.Err == nil:
			l.read.Lives[l.who[i]] = lease.Life{Exists: true, Mzxid: r.Stat.Mzxid}
			l.at[l.who[i].Incarnation] = r.Stat.Mtime
		case errors.Is(r.Err, zkconn.ErrNoNode):
			l.read.Lives[l.who[i]] = lease.Life{}
		default:
			l.read.Outcome = lease.Unknown
		}
	}
	l.reads = nil
}

// slotReader reads slots beside the loop.
type slotReader struct {
	loop  *session.Loop
	lives *lives
}

// tornReads is how often a slot is read again that changed while it was read.
const tornReads = 3

// fetch reads alive nodes with their children, each as they were at one moment. Record and
// heartbeat of an ownership are created in one transaction, so the heartbeat's czxid is the
// record's mzxid. A heartbeat that someone else recreated never matches; it is accepted as it is in
// the end.
func (s slotReader) fetch(ctx context.Context, slots []*reading) {
	for _, r := range slots {
		if r.sync { // once for all: the server catches up as a whole
			if err := s.loop.Conn.Sync(ctx, s.loop.Tree.Alive(r.slot)); err != nil {
				for _, r := range slots {
					r.err = err
				}
				return
			}
			break
		}
	}
	for range tornReads {
		s.fetchRecords(ctx, slots)
		// The heartbeats of owners that were not known are read next, and where there are others, too,
		// all.
		s.fetchBeats(ctx, slots)
		s.listBeats(ctx, slots)
		s.fetchBeats(ctx, slots)
		torn := slots[:0:0]
		for _, r := range slots {
			if !r.done {
				torn = append(torn, r)
			}
		}
		if slots = torn; len(slots) == 0 {
			return
		}
	}
}

// fetchRecords reads the records, with the heartbeats of the owners that they had before.
func (s slotReader) fetchRecords(ctx context.Context, slots []*reading) {
	tree := s.loop.Tree
	reads := make([]zkconn.Read, 0, 2*len(slots))
	for _, r := range slots {
		reads = append(reads, zkconn.Read{Path: tree.Alive(r.slot), Watch: true})
		if r.owner != "" {
			reads = append(reads, zkconn.Read{Path: tree.Heartbeat(r.slot, r.owner)})
		}
	}
	slotsEnd := len(reads)
	reads = append(reads, s.lives.reads...)
	results := s.loop.Conn.ReadMany(ctx, reads)
	if len(s.lives.reads) > 0 {
		s.lives.take(results[slotsEnd:])
	}
	for _, r := range slots {
		record := results[0]
		results = results[1:]
		before := r.owner
		s.takeRecord(r, record)
		if before == "" {
			continue
		}
		if !r.done && len(r.names) == 1 && r.names[0] == before {
			r.names = nil
			r.takeBeat(before, results[0])
			r.settle()
		}
		results = results[1:]
	}
}

func (s slotReader) takeRecord(r *reading, read zkconn.ReadResult) {
	*r = reading{slot: r.slot}
	switch {
	case errors.Is(read.Err, zkconn.ErrNoNode):
		r.done = true
		return
	case read.Err != nil:
		r.fail(read.Err)
		return
	}
	owner, err := zkrec.ParseOwner(read.Data)
	if err != nil {
		s.loop.Log.Debug("owner record ignored", "job", r.slot, "err", err)
	}
	r.rec = lease.Record{
		Exists: true, Version: read.Stat.Version, Mzxid: read.Stat.Mzxid, Offer: owner.Offer,
		Owner: lease.Member{SID: owner.SID, Incarnation: owner.Incarnation}, Relieved: lease.Member(owner.Relieved),
	}
	if r.owner = owner.SID; owner.SID != "" && read.Stat.NumChildren == 1 {
		r.names = []string{owner.SID}
	}
	r.beats = read.Stat.NumChildren
	r.settle()
}

// fetchBeats reads the heartbeats whose names are known.
func (s slotReader) fetchBeats(ctx context.Context, slots []*reading) {
	var reads []zkconn.Read
	for _, r := range slots {
		for _, sid := range r.names {
			reads = append(reads, zkconn.Read{Path: s.loop.Tree.Heartbeat(r.slot, sid)})
		}
	}
	if len(reads) == 0 {
		return
	}
	results := s.loop.Conn.ReadMany(ctx, reads)
	for _, r := range slots {
		names := r.names
		for k, sid := range names {
			r.takeBeat(sid, results[k])
		}
		if r.names = nil; len(names) > 0 {
			r.settle()
		}
		results = results[len(names):]
	}
}

// listBeats lists the heartbeats of slots of which some were not found by the owner's name.
func (s slotReader) listBeats(ctx context.Context, slots []*reading) {
	var reads []zkconn.Read
	var of []*reading
	for _, r := range slots {
		if !r.done && len(r.rec.Beats) != r.beats {
			reads = append(reads, zkconn.Read{Path: s.loop.Tree.Alive(r.slot), Children: true})
			of = append(of, r)
		}
	}
	if len(reads) == 0 {
		return
	}
	for k, result := range s.loop.Conn.ReadMany(ctx, reads) {
		r := of[k]
		if result.Err != nil && !errors.Is(result.Err, zkconn.ErrNoNode) {
			r.fail(result.Err)
			continue
		}
		r.rec.Beats, r.names = nil, result.Names
	}
}

func (r *reading) takeBeat(sid string, read zkconn.ReadResult) {
	switch {
	case errors.Is(read.Err, zkconn.ErrNoNode):
		return
	case errors.Is(read.Err, zkconn.ErrDenied) && sid != r.rec.Owner.SID:
		// Not the owner's, so nothing depends on when it was written. It is deleted as it is.
		r.rec.Beats = append(r.rec.Beats, lease.Beat{SID: sid, Version: zkconn.AnyVersion})
		return
	case read.Err != nil:
		r.fail(read.Err)
		return
	}
	r.rec.Beats = append(r.rec.Beats, lease.Beat{SID: sid, Version: read.Stat.Version, At: beatAt(read.Stat), Mzxid: read.Stat.Mzxid})
	if sid == r.rec.Owner.SID {
		r.ofOwner = read.Stat
	}
}

func (r *reading) fail(err error) { r.err, r.done = err, true }

// settle notes whether record and heartbeats are of one moment.
func (r *reading) settle() {
	whole := r.rec.Owner.SID == "" || r.ofOwner.Czxid == r.rec.Mzxid
	r.done = r.done || whole && len(r.rec.Beats) == r.beats
}
