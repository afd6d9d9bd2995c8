package admin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fates are what may become of a tick in a shard, that which needs most to be
// looked at first. One of a newer version comes before all.
var fates = []string{
	RunUnreadable, FateLate, RunLost, RunUnknown, RunFailed, RunTimedOut, RunInterrupted, RunMissed, FateDue,
	RunRunning, FatePaused, RunSkipped, FateForgotten, FateComing, RunOK, FateNone,
}

// explainShards says what the shards of a job did for a tick, those alike
// together. The job was judged at now.
func explainShards(job JobStatus, pasts []past, asked, now time.Time) Explanation {
	each := make([]Explanation, len(pasts))
	x := explainer{Explanation: Explanation{Job: job, Asked: asked, Fate: FateNone}, zone: pasts[0].of.schedule.Location()}
	if asked.IsZero() {
		x.Asked = now
	}
	for i, p := range pasts {
		each[i] = p.explain(asked, now)
		if each[i].Tick.After(x.Tick) {
			x.Tick = each[i].Tick
		}
	}
	if x.Tick.IsZero() {
		x.Sentences = each[0].Sentences[:1]
		return x.Explanation
	}
	alike := map[string][]int{}
	for i, shard := range each {
		if !shard.Tick.Equal(x.Tick) { // it never had that one
			shard.Fate = FateNone
		}
		alike[shard.Fate] = append(alike[shard.Fate], i)
		if shard.Fate != FateNone {
			x.Entries = append(x.Entries, shard.Entries...)
		}
	}
	order := slices.SortedFunc(maps.Keys(alike), func(a, b string) int { return slices.Index(fates, a) - slices.Index(fates, b) })
	worst := each[alike[order[0]][0]]
	x.Fate, x.Reason = worst.Fate, worst.Reason
	var counts []string
	for _, fate := range order {
		counts = append(counts, fmt.Sprintf("%d %s (%s)", len(alike[fate]), strings.ReplaceAll(fate, "_", " "), indices(alike[fate])))
	}
	x.sayf("The tick of %s in %d shards: %s.", x.at(x.Tick), len(pasts), strings.Join(counts, ", "))
	for _, fate := range order {
		if first := each[alike[fate][0]]; fate != RunOK && fate != FateComing && fate != FateNone {
			says := slices.IndexFunc(first.Sentences, func(text string) bool { return !strings.HasPrefix(text, "There is no tick at ") })
			x.sayf("%s: %s", first.Job.Name, strings.TrimRight(first.Sentences[says], ".")+".")
		}
	}
	x.shards(pasts[0])
	x.sayf("For the whole story of one shard, ask for it by name: %s.", worst.Job.Name)
	return x.Explanation
}

// shards says who owns them, how far they are, and what is to come.
func (x *explainer) shards(first past) {
	owned := map[string][]int{}
	var nobody []int
	for i, shard := range x.Job.Slots {
		if shard.State == Owned {
			owned[shard.Owner.InstanceID] = append(owned[shard.Owner.InstanceID], i)
		} else {
			nobody = append(nobody, i)
		}
	}
	var owners []string
	for _, sid := range slices.Sorted(maps.Keys(owned)) {
		owners = append(owners, fmt.Sprintf("%s (%s)", sid, indices(owned[sid])))
	}
	if len(owners) > 0 {
		x.sayf("The owners are %s.", strings.Join(owners, ", "))
	}
	if len(nobody) > 0 {
		x.sayf("Without an owner are %s: %s.", indices(nobody), strings.TrimRight(x.Job.Slots[nobody[0]].Reason, "."))
	}
	if since := first.of.spec.ActiveLayout().Since; since != 0 && !x.Tick.After(milli(since)) {
		x.sayf("The shards were changed after the tick of %s: of ticks up to there, shards that are no more have left nothing.", x.at(milli(since)))
	}
	if !x.Job.Complete.IsZero() {
		x.sayf("All shards are done with the ticks up to %s.", x.at(x.Job.Complete))
	}
	if r := x.Job.Resizing; r != nil {
		x.sayf("A change of the shards is under way: %s.", r)
	}
	if next := x.Job.NextRun; !next.IsZero() && !next.Equal(x.Tick) {
		x.sayf("The next tick to run is that of %s.", x.at(next))
	}
}

// indices lists shards: "0-3, 7".
func indices(shards []int) string {
	var parts []string
	for i := 0; i < len(shards); {
		last := i
		for last+1 < len(shards) && shards[last+1] == shards[last]+1 {
			last++
		}
		part := strconv.Itoa(shards[i])
		if last > i {
			part += "-" + strconv.Itoa(shards[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ", ")
}
