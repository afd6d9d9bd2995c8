package zkrec_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestSlotNames(t *testing.T) {
	t.Parallel()
	for slot, want := range map[string]struct {
		job     string
		shard   int
		sharded bool
	}{
		"job": {"job", 0, false}, "job[0]": {"job", 0, true}, "job[1023]": {"job", 1023, true}, "a[1][2]": {"a[1]", 2, true},
		"job[]": {"job[]", 0, false}, "job[01]": {"job[01]", 0, false}, "job[-1]": {"job[-1]", 0, false},
		"job[+1]": {"job[+1]", 0, false}, "[3]": {"[3]", 0, false}, "job[3": {"job[3", 0, false}, "job3]": {"job3]", 0, false},
		"job[3].": {"job[3].", 0, false}, "": {"", 0, false}, "job[99999999999999999999]": {"job[99999999999999999999]", 0, false},
	} {
		if job, shard, sharded := zkrec.SplitSlot(slot); job != want.job || shard != want.shard || sharded != want.sharded {
			t.Errorf("SplitSlot(%q) = %q, %d, %v; want %+v", slot, job, shard, sharded, want)
		}
	}
	if err := zkrec.CheckJobName("job[3]"); err == nil || err.Error() != `is the name of shard 3 of a job "job"` {
		t.Errorf("CheckJobName = %v", err)
	}
	if err := zkrec.CheckJobName("com.example.Job$Inner"); err != nil {
		t.Error(err)
	}
}

func TestSlotsOfAJob(t *testing.T) {
	t.Parallel()
	if got := (zkrec.Sharding{}).Slots("job"); !slices.Equal(got, []string{"job"}) {
		t.Errorf("not sharded: %v", got)
	}
	if got := (zkrec.Sharding{Shards: 2}).Slots("job"); !slices.Equal(got, []string{"job[0]", "job[1]"}) {
		t.Errorf("two shards: %v", got)
	}
}

func TestShardingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for want, bad := range map[string]zkrec.Sharding{
		`Shards "-1": is out of range, want 1 to 1024`:                   {Shards: -1},
		`Shards "1025": is out of range, want 1 to 1024`:                 {Shards: 1025},
		`ShardParameters "3": is no shard, want 0 to 2`:                  {Shards: 3, ShardParams: map[int]string{0: "a", 3: "b"}},
		`ShardParameters "-1": is no shard, want 0 to 2`:                 {Shards: 3, ShardParams: map[int]string{-1: "b"}},
		`ShardParameters "0": is a parameter, but the job has no shards`: {ShardParams: map[int]string{0: "b"}},
	} {
		if err := (zkrec.Spec{Schedule: "@daily", Sharding: bad}).Check(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
	}
	if err := (zkrec.Sharding{Shards: zkrec.MaxShards, ShardParams: map[int]string{1023: "last"}}).Check(); err != nil {
		t.Error(err)
	}
}

// A change of the shards, or of a parameter, leaves the layout as it is until the last of its ticks
// is done.
func TestLayoutOutlastsAChange(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1000)
	three := zkrec.Spec{Schedule: "@daily", Since: 1, Sharding: zkrec.Sharding{Shards: 3}}
	five := three
	five.Shards = 5
	changed := five.Over(three, now, now)
	if !changed.Resizing() || changed.ActiveLayout().Shards != 3 || changed.ActiveLayout().Until != 0 {
		t.Fatalf("after a change: %+v", changed.Layout)
	}
	changed.Layout.Until = 500 // the last tick is known
	seven := three
	seven.Shards = 7
	changed = seven.Over(changed, now, now)
	if changed.ActiveLayout().Shards != 3 || changed.ActiveLayout().Until != 500 {
		t.Errorf("after a further change: %+v", changed.Layout)
	}
	if back := three.Over(changed, now, now); back.Resizing() || back.Layout != nil {
		t.Errorf("after a change back: %+v", back.Layout)
	}
	resized := changed.Resized()
	if resized.Resizing() || !reflect.DeepEqual(resized.ActiveLayout(), zkrec.Layout{Sharding: seven.Sharding, Since: 500}) {
		t.Errorf("at the end: %+v", resized.Layout)
	}
	same := seven
	if again := same.Over(resized, now, now); again.Resizing() || again.ActiveLayout().Since != 500 {
		t.Errorf("after a change of something else: %+v", again.Layout)
	}
	other := seven
	other.ShardParams = map[int]string{0: "Beijing"}
	if again := other.Over(resized, now, now); !again.Resizing() || again.ActiveLayout().ShardParams != nil {
		t.Errorf("after a change of a parameter: %+v", again.Layout)
	}
	if five.Fingerprint("job") == three.Fingerprint("job") || other.Fingerprint("job") == seven.Fingerprint("job") ||
		changed.Fingerprint("job") != seven.Fingerprint("job") {
		t.Error("the fingerprint must be of what is asked for")
	}
}
