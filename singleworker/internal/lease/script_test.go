package lease_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// script drives one machine, instance "me", through a sequence of events. The session
// timeout is 4 s: leases 3 s, a heartbeat every second, silence after 6 s. The sync
// period is 10 s.
type script struct {
	config lease.Config
	able   []string // instances with the handlers besides "me"
	lines  []line
}

// line is an event at a time and the expected actions. The Elapsed clock is ahead of
// the monotonic one by slept.
type line struct {
	at    time.Duration
	slept time.Duration
	event lease.Event
	want  string
}

var me = lease.Member{SID: "me", Incarnation: "me1"}

const s = lease.Slot("s")

func sec(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func instant(at, slept time.Duration) lease.Instant {
	return lease.Instant{Mono: at, Elapsed: at + slept}
}

func run(t *testing.T, sc script) {
	t.Helper()
	sc.config.Self, sc.config.SyncPeriod = me, cmp.Or(sc.config.SyncPeriod, sec(10))
	m := lease.New(sc.config)
	m.Step(instant(0, 0), slotSet(append([]string{"me"}, sc.able...)...))
	asked := 0
	for k, l := range sc.lines {
		if g, is := l.event.(lease.GroupRead); is && g.Asked == 0 {
			g.Asked = asked
			l.event = g
		}
		actions := m.Step(instant(l.at, l.slept), l.event)
		for _, a := range actions {
			if g, is := a.(lease.ReadGroup); is {
				asked = g.Asked
			}
		}
		if got := render(actions); got != l.want {
			t.Fatalf("line %d, %v, %T%+v:\n got %q\nwant %q", k, l.at, l.event, l.event, got, l.want)
		}
	}
}

func render(actions []lease.Action) string {
	var out []string
	for _, a := range actions {
		if beats, is := a.(lease.SendBeats); is && len(beats.Beats) == 0 {
			continue // only the sign of life, in each period
		}
		out = append(out, renderOne(a))
	}
	return strings.Join(out, "; ")
}

func renderOne(a lease.Action) string {
	switch a := a.(type) {
	case lease.ReadSlot:
		if a.Sync {
			return fmt.Sprintf("sync and read %s", a.Slot)
		}
		return fmt.Sprintf("read %s", a.Slot)
	case lease.ReadLives:
		text := []string{"lives"}
		for _, who := range a.Who {
			text = append(text, who.SID)
		}
		return strings.Join(text, " ")
	case lease.ReadGroup:
		return "group"
	case lease.Take:
		text := fmt.Sprintf("take %s v%d", a.Slot, a.Version) + renderBeats(a.Remove)
		if a.Relieves.SID != "" {
			text += " relieving " + a.Relieves.SID
		}
		if a.Overdue {
			text += fmt.Sprintf(" overdue #%d", a.Mzxid)
		}
		return text
	case lease.SendBeats:
		text := []string{"beat"}
		for _, slot := range slices.Sorted(maps.Keys(a.Beats)) {
			text = append(text, fmt.Sprintf("%s:%d", slot, a.Beats[slot]))
		}
		return strings.Join(text, " ")
	case lease.Release:
		text := fmt.Sprintf("release %s v%d", a.Slot, a.Version)
		if !a.Beat {
			text += " without heartbeat"
		}
		if a.Offer != "" {
			text += " to " + a.Offer
		}
		return text
	case lease.Yield:
		return fmt.Sprintf("yield %s", a.Slot) + renderBeats([]lease.Beat{a.Beat})
	case lease.Gained:
		text := fmt.Sprintf("gained %s #%d v%d until %v", a.Slot, a.Token, a.Version, a.Until)
		if a.From != "" {
			text += " from " + a.From
		}
		return text
	case lease.Renewed:
		return fmt.Sprintf("renewed %s until %v", a.Slot, a.Until)
	case lease.Lost:
		return fmt.Sprintf("lost %s: %s", a.Slot, [...]string{"taken", "vanished", "given"}[a.Reason])
	}
	return fmt.Sprintf("%T", a)
}

func renderBeats(beats []lease.Beat) string {
	var text strings.Builder
	for _, b := range beats {
		fmt.Fprintf(&text, " -%s:%d", b.SID, b.Version)
	}
	return text.String()
}

// Short forms of the events.

var (
	opened    = lease.Opened{Session: sec(4)}
	suspended = lease.Suspended{}
	expired   = lease.Expired{}
	tick      = lease.Tick{}
	lookAll   = lease.LookAll{}
	noAnswer  = lease.SlotRead{Slot: s}
)

func slotSet(able ...string) lease.Event {
	return lease.SlotSet{Slot: s, Eligible: slices.Contains(able, "me"), Able: able}
}

// record is a slot read; owner is "sid" of incarnation "sid1", or "" for none. Heartbeats are
// written one after the other: by the transaction of the token and the version together.
func record(version int32, token int64, owner string, beats ...lease.Beat) lease.SlotRead {
	for k, b := range beats {
		beats[k].Mzxid = token + int64(b.Version)
	}
	rec := lease.Record{Exists: true, Version: version, Mzxid: token, Beats: beats}
	if owner != "" {
		rec.Owner = lease.Member{SID: owner, Incarnation: owner + "1"}
	}
	return lease.SlotRead{Slot: s, Outcome: lease.Done, Record: rec}
}

func offered(to string, read lease.SlotRead) lease.SlotRead {
	read.Record.Offer = to
	return read
}

// relieving is a reading of a record that names an instance as relieved.
func relieving(sid string, read lease.SlotRead) lease.SlotRead {
	read.Record.Relieved = lease.Member{SID: sid, Incarnation: sid + "1"}
	return read
}

func beat(sid string, version int32) lease.Beat { return lease.Beat{SID: sid, Version: version} }

// gave answers ReadLives: the sign of life of an instance was written by a transaction; 0 means
// that it does not exist.
func gave(sid string, zxid int64) lease.LivesRead {
	who := lease.Member{SID: sid, Incarnation: sid + "1"}
	return lease.LivesRead{Outcome: lease.Done, Lives: map[lease.Member]lease.Life{who: {Exists: zxid > 0, Mzxid: zxid}}}
}

// group answers the latest ReadGroup: "me" and these are live.
func group(sids ...string) lease.GroupRead {
	peers := map[string]lease.Peer{"me": {Incarnation: "me1"}}
	for _, sid := range sids {
		peers[sid] = lease.Peer{Incarnation: sid + "1"}
	}
	return lease.GroupRead{Outcome: lease.Done, Peers: peers}
}

func took(version int32, token int64, sent time.Duration) lease.TakeDone {
	return lease.TakeDone{Slot: s, Outcome: lease.Done, Version: version, Mzxid: token, SentAt: instant(sent, 0)}
}

func beaten(version int32, sent time.Duration) lease.BeatDone {
	return lease.BeatDone{Slot: s, Outcome: lease.Done, Version: version, SentAt: instant(sent, 0)}
}

// adopted is the sequence in which "me" takes s: version 4, token 100, at 0.
func adopted(more ...line) []line {
	return append([]line{
		{0, 0, opened, "read s"},
		{0, 0, record(3, 90, ""), "group"},
		{0, 0, group("b"), "take s v3"},
		{sec(0.5), 0, took(4, 100, 0), "gained s #100 v4 until 3s"},
	}, more...)
}
