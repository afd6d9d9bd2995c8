package coord

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

func owned(version int32) lease.Record {
	return lease.Record{
		Exists: true, Mzxid: 7, Owner: lease.Member{SID: "b", Incarnation: "b1"}, Beats: []lease.Beat{{SID: "b", Version: version}},
	}
}

// A record is relied on a few times, and then read again.
func TestLooksRelyOnARecordAFewTimes(t *testing.T) {
	t.Parallel()
	var v slotView
	if v.reliable() != nil {
		t.Fatal("relies on a record that was never read")
	}
	v.seen(v.changes, owned(1), false)
	for look := range looksPerReading {
		known := v.reliable()
		if known == nil || known.Beats[0].Version != int32(look+1) {
			t.Fatalf("look %d begins with %+v", look, known)
		}
		v.seen(v.changes, owned(int32(look+2)), true)
	}
	if known := v.reliable(); known != nil {
		t.Errorf("after %d looks still relies on %+v", looksPerReading, known)
	}
	if v.seen(v.changes, owned(9), false); v.reliable() == nil {
		t.Error("does not rely on the record just read")
	}
}

// What is free, offered, or has a heartbeat that the record does not name, is read each time.
func TestOnlyWhatIsOwnedAndWellIsReliedOn(t *testing.T) {
	t.Parallel()
	stranger, doubled := owned(1), owned(1)
	stranger.Beats = []lease.Beat{{SID: "java"}}
	doubled.Beats = append(doubled.Beats, lease.Beat{SID: "java"})
	for name, rec := range map[string]lease.Record{
		"gone": {}, "free": {Exists: true}, "offered": {Exists: true, Offer: "b"}, "stranger": stranger, "two heartbeats": doubled,
	} {
		var v slotView
		if v.seen(v.changes, rec, false); v.reliable() != nil {
			t.Errorf("%s: relied on", name)
		}
	}
}

// An answer to what was asked before a change was heard of may be older than the change.
func TestWhatIsHeardMakesAnswersOld(t *testing.T) {
	t.Parallel()
	var views slotViews
	v := views.of("job")
	asked := v.changes
	v.changed()
	if v.seen(asked, owned(1), false); v.reliable() != nil {
		t.Error("relies on an answer from before the change")
	}
	v.seen(v.changes, owned(1), false)
	if views.changed(); v.reliable() != nil || views.of("job") != v {
		t.Error("relies on a record from before everything changed")
	}
}

// When somebody has come or gone, nobody decides with records read before.
func TestAChangedGroupDecidesNothingByOlderRecords(t *testing.T) {
	t.Parallel()
	group := func(incarnation string) map[string]lease.Peer {
		return map[string]lease.Peer{"b": {Incarnation: incarnation}}
	}
	var views slotViews
	if !views.sameGroup(group("b1")) {
		t.Error("everything was read: that decides")
	}
	v := views.of("job")
	v.seen(v.changes, owned(1), false)
	views.relied = true
	if !views.sameGroup(group("b1")) || v.reliable() == nil {
		t.Error("the same group: that decides, and records stay")
	}
	views.relied = true
	if views.sameGroup(group("b2")) || v.reliable() != nil {
		t.Error("another incarnation, and older records: that must not decide")
	}
	if !views.sameGroup(group("b2")) {
		t.Error("read again: that decides")
	}
}
