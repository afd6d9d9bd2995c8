package words

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// shards says what became of the tick in each shard, grouped by fate.
func (w *writer) shards() {
	if w.Tick.IsZero() {
		w.tick()
		return
	}
	alike := map[history.State][]int{}
	for i, shard := range w.Shards {
		alike[shard.Fate] = append(alike[shard.Fate], i)
	}
	order := slices.SortedFunc(maps.Keys(alike), admin.ByFate)
	var counts []string
	for _, fate := range order {
		counts = append(counts, fmt.Sprintf("%d %s (%s)", len(alike[fate]), strings.ReplaceAll(string(fate), "_", " "), w.list(alike[fate])))
	}
	where := "in %d shards"
	switch {
	case w.isEverywhere() && len(w.Shards) == 1:
		where = "on %d instance"
	case w.isEverywhere():
		where = "on %d instances"
	}
	w.sayf("The tick of %s "+where+": %s.", w.at(w.Tick), len(w.Shards), strings.Join(counts, ", "))
	for _, fate := range order {
		if fate == history.StateOK || fate == admin.FateComing || fate == admin.FateNone {
			continue
		}
		first := newWriter(w.Shards[alike[fate][0]])
		first.fate()
		w.sayf("%s: %s", first.Job.Name, first.sentences[0])
	}
	if w.isEverywhere() {
		w.next()
		w.sayf("To explain what one instance did, name it: %s.", w.Shards[alike[order[0]][0]].Job.Name)
		return
	}
	w.owners()
	if since := w.ShardsSince; !w.Tick.After(since) {
		w.sayf("The shards were changed after the tick of %s; shards that no longer exist have left no record of ticks up to then.", w.at(since))
	}
	if !w.Job.Complete.IsZero() {
		w.sayf("All shards are done with the ticks up to %s.", w.at(w.Job.Complete))
	}
	if r := w.Job.Resizing; r != nil {
		w.sayf("Resharding is in progress: %s.", r)
	}
	w.next()
	w.sayf("To explain a single shard, use its name: %s.", w.Shards[alike[order[0]][0]].Job.Name)
}

// isEverywhere reports whether the job runs on every instance.
func (w *writer) isEverywhere() bool { return len(w.Shards) > 0 && w.Shards[0].Job.InstanceID != "" }

// list names some of the shards, or instances.
func (w *writer) list(some []int) string {
	if !w.isEverywhere() {
		return ranges(some)
	}
	var ids []string
	for _, i := range some {
		ids = append(ids, w.Shards[i].Job.InstanceID)
	}
	return strings.Join(ids, ", ")
}

// owners says who owns the shards.
func (w *writer) owners() {
	owned := map[string][]int{}
	var unowned []int
	for i, shard := range w.Job.Slots {
		if shard.State == admin.StateOwned {
			owned[shard.Owner.InstanceID] = append(owned[shard.Owner.InstanceID], i)
		} else {
			unowned = append(unowned, i)
		}
	}
	var owners []string
	for _, id := range slices.Sorted(maps.Keys(owned)) {
		owners = append(owners, fmt.Sprintf("%s (%s)", id, ranges(owned[id])))
	}
	if len(owners) > 0 {
		w.sayf("The owners are %s.", strings.Join(owners, ", "))
	}
	if len(unowned) > 0 {
		w.sayf("Shards without an owner: %s: %s.", ranges(unowned), strings.TrimRight(w.Job.Slots[unowned[0]].Reason.String(), "."))
	}
}

// ranges lists shards: "0-3, 7".
func ranges(shards []int) string {
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

// thing is what has an owner: the job, or a shard by name.
func (w *writer) thing() string {
	if w.Job.Shard == nil && w.Job.InstanceID == "" {
		return "the job"
	}
	return w.Job.Name
}
