package zkrec_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

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
		`job.Shards "-1": is out of range, want 1 to 1024`:                   {Shards: -1},
		`job.Shards "1025": is out of range, want 1 to 1024`:                 {Shards: 1025},
		`job.ShardParameters "3": is no shard, want 0 to 2`:                  {Shards: 3, ShardParams: map[int]string{0: "a", 3: "b"}},
		`job.ShardParameters "-1": is no shard, want 0 to 2`:                 {Shards: 3, ShardParams: map[int]string{-1: "b"}},
		`job.ShardParameters "0": is a parameter, but the job has no shards`: {ShardParams: map[int]string{0: "b"}},
	} {
		if err := bad.Check(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
	}
	if err := (zkrec.Sharding{Shards: job.MaxShards, ShardParams: map[int]string{1023: "last"}}).Check(); err != nil {
		t.Error(err)
	}
}

// A change of the shards, or of a parameter, leaves the layout as it is until the last of its ticks
// is done.
func TestLayoutOutlastsAChange(t *testing.T) {
	t.Parallel()
	three := zkrec.Spec{Job: job.Job{Schedule: "@daily", Shards: 3}, Since: 1}
	five := three
	five.Job.Shards = 5
	changed := five.Over(three)
	if !changed.Resizing() || changed.ActiveLayout().Shards != 3 || changed.ActiveLayout().Until != 0 {
		t.Fatalf("after a change: %+v", changed.Layout)
	}
	changed.Layout.Until = 500 // the last tick is known
	seven := three
	seven.Job.Shards = 7
	changed = seven.Over(changed)
	if changed.ActiveLayout().Shards != 3 || changed.ActiveLayout().Until != 500 {
		t.Errorf("after a further change: %+v", changed.Layout)
	}
	if back := three.Over(changed); back.Resizing() || back.Layout != nil {
		t.Errorf("after a change back: %+v", back.Layout)
	}
	resized := changed.Resized()
	if resized.Resizing() || !reflect.DeepEqual(resized.ActiveLayout(), zkrec.Layout{Sharding: zkrec.Sharding{Shards: 7}, Since: 500}) {
		t.Errorf("at the end: %+v", resized.Layout)
	}
	same := seven
	if again := same.Over(resized); again.Resizing() || again.ActiveLayout().Since != 500 {
		t.Errorf("after a change of something else: %+v", again.Layout)
	}
	other := seven
	other.Job.ShardParameters = map[int]string{0: "Beijing"}
	if again := other.Over(resized); !again.Resizing() || again.ActiveLayout().ShardParams != nil {
		t.Errorf("after a change of a parameter: %+v", again.Layout)
	}
	if five.Fingerprint() == three.Fingerprint() || other.Fingerprint() == seven.Fingerprint() ||
		changed.Fingerprint() != seven.Fingerprint() {
		t.Error("the fingerprint must be of what is asked for")
	}
}

// A shard that is created late accounts for the ticks of the schedules before, too, but not for
// another layout's.
func TestShardsBegin(t *testing.T) {
	t.Parallel()
	spec := zkrec.Spec{Since: 900, Former: &zkrec.Former{Since: 700, Former: &zkrec.Former{Since: 300}}}
	for want, tt := range map[int64]struct {
		layout   *zkrec.Layout
		complete int64
		former   *zkrec.Former
	}{
		300: {former: spec.Former},
		900: {},
		500: {former: spec.Former, layout: &zkrec.Layout{Since: 500}},
		600: {former: spec.Former, layout: &zkrec.Layout{Since: 500}, complete: 600},
		700: {former: &zkrec.Former{Since: 700, Former: &zkrec.Former{}}}, // of a record that does not say
	} {
		spec.Former, spec.Layout = tt.former, tt.layout
		if got := spec.ShardsBegin(zkrec.Complete{Tick: tt.complete}); got != want {
			t.Errorf("%+v: %d, want %d", tt, got, want)
		}
	}
}
