package lease_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// others drives a machine that can run nothing: b owns r, s and t; c owns u. Their heartbeats
// are numbered by the whole server's transactions.
type others struct {
	t       *testing.T
	machine *lease.Machine
	zxid    map[lease.Slot]int64 // of the heartbeat
	lives   map[string]int64     // of the sign of life
}

func watchOthers(t *testing.T) *others {
	t.Helper()
	o := &others{t: t, machine: lease.New(lease.Config{Self: me, SyncPeriod: sec(2)}), zxid: make(map[lease.Slot]int64), lives: map[string]int64{"b": 100, "c": 101}}
	for k, slot := range []lease.Slot{"r", "s", "t", "u"} {
		o.zxid[slot] = int64(100 + k)
		o.machine.Step(instant(0, 0), lease.SlotSet{Slot: slot, Able: []string{ownerOf(slot)}})
	}
	if got := o.look(0, opened); got != "read r; read s; read t; read u" {
		t.Fatalf("at first: %q", got)
	}
	return o
}

func ownerOf(slot lease.Slot) string {
	if slot == "u" {
		return "c"
	}
	return "b"
}

// beat writes heartbeats, in one transaction.
func (o *others) beat(zxid int64, slots ...lease.Slot) {
	for _, slot := range slots {
		o.zxid[slot], o.lives[ownerOf(slot)] = zxid, zxid
	}
}

// look applies ev, answers the machine's reads, and returns the reads of all rounds.
func (o *others) look(at time.Duration, ev lease.Event) (read string) {
	o.t.Helper()
	pending := o.machine.Step(instant(at, 0), ev)
	for len(pending) > 0 {
		a := pending[0]
		pending = pending[1:]
		var answer lease.Event
		switch a := a.(type) {
		case lease.ReadSlot:
			if read != "" {
				read += "; "
			}
			read += render([]lease.Action{a})
			owner := ownerOf(a.Slot)
			seen := record(3, 90, owner, beat(owner, 0))
			seen.Slot, seen.Record.Beats[0].Mzxid = a.Slot, o.zxid[a.Slot]
			answer = seen
		case lease.ReadLives:
			if read != "" {
				read += "; "
			}
			read += render([]lease.Action{a})
			lives := lease.LivesRead{Outcome: lease.Done, Lives: make(map[lease.Member]lease.Life)}
			for _, who := range a.Who {
				lives.Lives[who] = lease.Life{Exists: true, Mzxid: o.lives[who.SID]}
			}
			answer = lives
		case lease.SendBeats:
			continue
		case lease.ReadGroup:
			g := group("b", "c")
			g.Asked = a.Asked
			answer = g
		default:
			o.t.Fatalf("%T%+v", a, a)
		}
		pending = append(pending, o.machine.Step(instant(at, 0), answer)...)
	}
	return read
}

func (o *others) want(at time.Duration, want string) {
	o.t.Helper()
	if got := o.look(at, lookAll); got != want {
		o.t.Errorf("after %v: %q, want %q", at, got, want)
	}
}

// TestSample: the signs of life of the neighbors and a fifth of the slots are read per lease, in
// turn.
func TestSample(t *testing.T) {
	t.Parallel()
	o := watchOthers(t)
	o.want(sec(1), "")
	for turn, want := range []string{"read r", "read s", "read t", "read u", "read r"} {
		at := sec(float64(3 * (turn + 1)))
		o.beat(int64(200+10*turn), "r", "s", "t")
		o.beat(int64(201+10*turn), "u")
		o.want(at, "lives b c; "+want)
		o.want(at+sec(1), "")
	}
}

// TestSilenceReadsAll: if a reading of an owner's sign of life shows, by the zxids of other
// transactions, that it gives none, all its slots are read.
func TestSilenceReadsAll(t *testing.T) {
	t.Parallel()
	o := watchOthers(t)
	o.beat(200, "r", "s", "t")
	o.beat(201, "u")
	o.want(sec(3), "lives b c; read r") // the last heartbeats of b; 201 shows their age
	o.beat(301, "u")
	o.want(sec(6), "lives b c; read s")
	o.want(sec(7), "lives b") // late: each time
	o.beat(401, "u")
	o.want(sec(9.5), "lives b c; read t; lives b; read r; read s")
	o.want(sec(10), "lives b") // its slots have just been read
}

// TestOldHeartbeatOfTheLiving: an owner that gives signs of life keeps a slot however old the
// heartbeat is, and nothing else of it is read.
func TestOldHeartbeatOfTheLiving(t *testing.T) {
	t.Parallel()
	o := watchOthers(t)
	o.beat(200, "r", "s")
	o.beat(201, "u")
	o.want(sec(3), "lives b c; read r")
	o.beat(300, "r", "s")
	o.beat(301, "u")
	o.want(sec(6), "lives b c; read s")
	o.beat(400, "r", "s")
	o.beat(401, "u")
	o.want(sec(9), "lives b c; read t") // t is as it was at first
	o.want(sec(9.5), "")
}

// TestSampleOfOurOwn: our slots are read in turn, all of them in five samples.
func TestSampleOfOurOwn(t *testing.T) {
	t.Parallel()
	m := lease.New(lease.Config{Self: me, SyncPeriod: sec(2)})
	for _, slot := range "abcdefghij" {
		m.Step(instant(0, 0), lease.SlotSet{Slot: lease.Slot(slot), Eligible: true, Able: []string{"me"}})
	}
	look := func(at time.Duration, ev lease.Event) (read string) {
		pending := m.Step(instant(at, 0), ev)
		for ; len(pending) > 0; pending = pending[1:] {
			switch a := pending[0].(type) {
			case lease.ReadSlot:
				read += string(a.Slot)
				seen := record(3, 90, "me", beat("me", 0))
				seen.Slot = a.Slot
				pending = append(pending, m.Step(instant(at, 0), seen)...)
			case lease.ReadGroup:
				g := group()
				g.Asked = a.Asked
				pending = append(pending, m.Step(instant(at, 0), g)...)
			}
		}
		return read
	}
	if got := look(0, opened); got != "abcdefghij" {
		t.Fatalf("at first %q", got)
	}
	for turn, want := range []string{"ab", "cd", "ef", "gh", "ij", "ab"} {
		at := sec(float64(3 * (turn + 1)))
		if got := look(at, lookAll); got != want {
			t.Errorf("after %v: %q, want %q", at, got, want)
		}
		if got := look(at+sec(2), lookAll); got != "" {
			t.Errorf("between two samples: %q", got)
		}
	}
}
