package member

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Departed remembers for people who has left the group, in nodes that nothing else depends on. An
// instance that stops writes its own. Of any other, the first one by a hash does, and in case that
// is gone, too, the second and the third do one and two session timeouts later. So the cost of a
// death does not grow with the group.
type Departed struct {
	loop    *session.Loop
	id      string // this instance's
	cleanup *Cleanup

	group map[string]instanceRead // as last read
	signs map[string]sign         // by incarnation
	left  map[string]leaver       // by path, that may have to be written
}

func newDeparted(loop *session.Loop, id string, c *Cleanup) *Departed {
	return &Departed{loop: loop, id: id, cleanup: c, signs: make(map[string]sign), left: make(map[string]leaver)}
}

// sign is the last sign of life that was read of an instance.
type sign struct {
	given time.Time     // on ZooKeeper's clock
	read  time.Duration // Mono
}

// leaver is an instance that is gone.
type leaver struct {
	zkrec.Departed
	since time.Duration // Mono
}

// Heard takes in signs of life, by incarnation: when each was given by ZooKeeper's clock.
func (d *Departed) Heard(signs map[string]time.Time) {
	for incarnation, given := range signs {
		d.signs[incarnation] = sign{given, d.loop.Now()}
	}
}

// follow takes in a reading of the group.
func (d *Departed) follow(group map[string]instanceRead) {
	live := make(map[string]bool, len(group))
	for _, i := range group {
		live[i.Incarnation] = true
	}
	for sid, was := range d.group {
		if sid != d.id && was.err == nil && group[sid].stat.Czxid != was.stat.Czxid && job.CheckNodeName(was.Incarnation) == nil {
			gone := leaver{zkrec.DepartedOf(sid, was.Instance), d.loop.Now()}
			if last, heard := d.signs[was.Incarnation]; heard {
				gone.Last, gone.Unread = last.given.UnixMilli(), zkrec.Duration(d.loop.Now()-last.read)
			}
			gone.By = d.id
			d.left[d.loop.Tree.Departed(was.Incarnation, was.stat.Czxid)] = gone
		}
	}
	maps.DeleteFunc(d.signs, func(incarnation string, _ sign) bool { return !live[incarnation] })
	d.group = group
	d.Sync()
}

// remembering is how many instances remember one that has left, and forgetAfter is after how many
// session timeouts nobody does any more.
const remembering, forgetAfter = 3, 4

// Sync writes who has left, as far as that is up to this instance now.
func (d *Departed) Sync() {
	if len(d.left) == 0 || !d.loop.Joined() {
		return
	}
	var groups [][]zkconn.Op
	timeout := d.loop.Conn.SessionTimeout()
	for _, path := range slices.Sorted(maps.Keys(d.left)) {
		gone := d.left[path]
		waited, turn := d.loop.Now()-gone.since, d.cleanup.Rank(gone.SID)
		switch {
		case turn < remembering && waited >= time.Duration(turn)*timeout:
			groups = append(groups, []zkconn.Op{zkconn.CreateOp(path, gone.Encode())})
			delete(d.left, path)
		case waited > forgetAfter*timeout:
			delete(d.left, path)
		}
	}
	if len(groups) > 0 {
		d.apply("remember who has left", groups)
	}
}

// apply writes, or removes, nodes beside the loop. One that is refused was mostly written, or
// removed, by another instance.
func (d *Departed) apply(what string, groups [][]zkconn.Op) {
	d.loop.Async(what, func(ctx context.Context) func() {
		d.loop.Apply(ctx, groups)
		return func() {}
	})
}

// stopped is the operations that remember this instance, which stops; none if it was not read yet.
func (d *Departed) stopped() []zkconn.Op {
	own, known := d.group[d.id]
	if !known || own.err != nil {
		return nil
	}
	record := zkrec.DepartedOf(d.id, own.Instance)
	record.Stopped = true
	return []zkconn.Op{zkconn.CreateOp(d.loop.Tree.Departed(own.Incarnation, own.stat.Czxid), record.Encode())}
}

// Prune removes, beside the loop, the oldest nodes of too many. An instance does so once it has
// joined for the first time: that is how often one can leave.
func (d *Departed) Prune() {
	list := zkconn.Read{Path: d.loop.Tree.AllDeparted(), Children: true}
	d.loop.Read([]zkconn.Read{list}, func(results []zkconn.ReadResult) {
		names := results[0].Names
		if len(names) <= zkrec.MaxDeparted {
			return
		}
		reads := make([]zkconn.Read, len(names))
		for i, name := range names {
			reads[i].Path = list.Path + "/" + name
		}
		d.loop.Read(reads, func(results []zkconn.ReadResult) {
			order := make([]int, len(results))
			for i := range order {
				order[i] = i
			}
			slices.SortFunc(order, func(a, b int) int { return results[a].Stat.Ctime.Compare(results[b].Stat.Ctime) })
			var groups [][]zkconn.Op
			for _, i := range order[:len(order)-zkrec.MaxDeparted] {
				groups = append(groups, []zkconn.Op{zkconn.DeleteOp(reads[i].Path, zkconn.AnyVersion)})
			}
			d.apply("forget who has left", groups)
		})
	})
}
