package swtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// corruptions is how many corrupted copies of a record of each kind there are. Another -sim.base
// draws others.
const corruptions = 100

// drawn are the corrupted copies of a record, the same each time.
func drawn(kind int, data []byte) [][]byte {
	return corrupted(data, simkit.Share(corruptions), rand.New(rand.NewPCG(uint64(kind), 1000+simkit.Base())))
}

// ghost is the record of an instance that lives and runs nothing.
func (h *hostile) ghost() zkrec.Instance {
	record, err := zkrec.ParseInstance(h.read(h.c.Tree().Instance("i0"), ""))
	h.must(err)
	record.Handlers = ""
	return record
}

// The records of the group that are corrupted, each beside the others.
var groupKinds = map[string]func(h *hostile, tree zkrec.Tree) (paths []string){
	"instance": func(h *hostile, tree zkrec.Tree) (paths []string) {
		for i, bad := range drawn(1, h.ghost().Encode()) {
			paths = append(paths, tree.Instance(keyOf("ghost", i)))
			_, err := h.raw.Multi(h.ctx, zkconn.CreateEphemeralOp(paths[i], bad))
			h.must(err)
		}
		return paths
	},
	"list of handlers": func(h *hostile, tree zkrec.Tree) (paths []string) {
		_, data, _ := zkrec.EncodeHandlers([]string{"work", "before"}, map[string]string{"good": ""})
		for i, bad := range drawn(2, data) {
			record := h.ghost()
			record.Handlers = fmt.Sprintf("%016x", i)
			paths = append(paths, tree.HandlerList(record.Handlers))
			_, err := h.raw.Multi(h.ctx, zkconn.CreateOp(paths[i], bad), zkconn.CreateEphemeralOp(tree.Instance(keyOf("ghost", i)), record.Encode()))
			h.must(err)
		}
		return paths
	},
	"order": func(h *hostile, tree zkrec.Tree) (paths []string) {
		h.must(h.raw.EnsureRoot(h.ctx, tree.Orders()))
		for i, bad := range drawn(3, zkrec.Order{Incarnation: "x", By: "a", Reason: "b", At: time.Now()}.Encode()) {
			paths = append(paths, tree.Order(keyOf("ghost", i)))
			h.write(paths[i], bad)
		}
		return paths
	},
	"exclusion": func(h *hostile, tree zkrec.Tree) (paths []string) {
		h.must(h.raw.EnsureRoot(h.ctx, tree.Exclusions()))
		for i := range drawn(4, nil) {
			x := zkrec.Exclusion{SID: keyOf("ghost", i), Job: "good", By: "a", Reason: "b", At: time.Now()}
			paths = append(paths, tree.Exclusion(x.Name()))
			h.write(paths[i], drawn(4, x.Encode())[i])
		}
		return paths
	},
	"instance that is gone": func(h *hostile, tree zkrec.Tree) (paths []string) {
		h.must(h.raw.EnsureRoot(h.ctx, tree.AllDeparted()))
		for i, bad := range drawn(8, zkrec.DepartedOf("ghost", h.ghost()).Encode()) {
			h.write(tree.Departed(keyOf("ghost", i), int64(i)), bad)
		}
		return nil
	},
	"canceled job": func(h *hostile, tree zkrec.Tree) (paths []string) {
		h.must(h.raw.EnsureRoot(h.ctx, tree.Canceled()))
		spec := zkrec.Spec{Job: singleworker.Job{Schedule: "@hourly", Handler: "work"}}
		for i, bad := range drawn(9, zkrec.Canceled{Spec: zkrec.Kept(spec.Encode()), Deed: zkrec.Kept(zkrec.Deed{Kind: zkrec.DeedCancel, Jobs: []string{"gone"}, By: "a"}.Encode())}.Encode()) {
			canceled, past := tree.NewCanceled(keyOf("gone", i), int64(i))
			h.write(canceled+fmt.Sprintf("%010d", 2*i), bad)
			h.write(past+fmt.Sprintf("%010d", 2*i+1), bad)
		}
		return nil
	},
	"entry of the log": func(h *hostile, tree zkrec.Tree) (paths []string) {
		h.must(h.raw.EnsureRoot(h.ctx, tree.Deeds()))
		for i, bad := range drawn(10, zkrec.Deed{Kind: zkrec.DeedCancel, Jobs: []string{"good"}, By: "a", From: "b", Reason: "c"}.Encode()) {
			h.write(fmt.Sprintf("%s/c%010d", tree.Deeds(), i), bad)
		}
		return nil
	},
	"calendar": func(h *hostile, tree zkrec.Tree) (paths []string) {
		h.must(h.raw.EnsureRoot(h.ctx, tree.Calendars()))
		is := job.Calendar{TimeZone: "Europe/Berlin", Dates: []string{"2000-01-01..2000-01-03"}, Yearly: []string{"*-15"}, Weekdays: []string{"sun"}, Hours: []string{"09:00..17:30"}}
		for i, bad := range drawn(11, zkrec.Calendar{}.With(is).With(is).Encode()) {
			h.write(tree.Calendar(keyOf("calendar", i)), bad)
			h.create(keyOf("named", i), zkrec.Spec{Job: singleworker.Job{Schedule: "@hourly", Handler: "work", Calendars: []string{"-" + keyOf("calendar", i)}}})
		}
		return nil
	},
	"freeze": func(h *hostile, tree zkrec.Tree) []string {
		until := time.Now().Add(time.Hour).UnixMilli()
		good := h.read(tree.Freeze(), "")
		client := h.client()
		defer client.Close()
		spans := []zkrec.Span{{Pause: zkrec.Pause{Since: 1, Until: 2, By: "a", Reason: "b"}}, {Pause: zkrec.Pause{Since: 3, Until: until, By: "a"}, Except: []string{"good"}}}
		for _, bad := range drawn(12, zkrec.Freeze{Spans: spans}.Encode()) {
			h.write(tree.Freeze(), bad)
			time.Sleep(100 * time.Millisecond)
			list, err := client.List(h.ctx)
			h.encodes("list", list, err)
			frozen, err := client.Frozen(h.ctx)
			h.encodes("frozen", frozen, err)
			for _, s := range list {
				d, err := client.Job(h.ctx, s.Name)
				h.encodes("job", d.Why(time.Time{}), err)
			}
		}
		h.write(tree.Freeze(), good)
		time.Sleep(5 * time.Second)
		return nil
	},
	"election": func(h *hostile, tree zkrec.Tree) []string {
		nodes, _, err := h.raw.Children(h.ctx, tree.Notices()+"/leader")
		h.must(err)
		for _, bad := range drawn(5, []byte("from the beginning")) {
			h.write(tree.Notices()+"/leader/"+nodes[0], bad)
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	},
}

// Hundreds of nodes of the group with content that no version would have written disturb nobody
// else.
func TestCorruptedRecordsOfTheGroup(t *testing.T) {
	t.Parallel()
	for name, corrupt := range groupKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inHostile(t, func(h *hostile) {
				spec := zkrec.Spec{Job: singleworker.Job{Schedule: "@hourly", Handler: "work"}}
				spec.Declared, spec.DeclaredBy = "0", "ghost" // so the lists of all instances are read
				h.create("orphan", spec)
				time.Sleep(5 * time.Second)
				paths := corrupt(h, h.c.Tree())
				time.Sleep(15 * time.Second)
				h.wantGood([]string{"orphan"})
				h.start("i2")
				h.readers(dir, "afterwards")
				time.Sleep(15 * time.Second)
				h.wantGood(nil)
				h.wantSaidOnce(nil, paths)
			})
		})
	}
}

// tells starts a sender of notifications over the present content of its records, which tells of a
// new job that fails.
func (h *hostile) tells(id string, told bool) {
	h.Helper()
	job := "f-" + id
	stop := h.notifier(id)
	time.Sleep(time.Second)
	h.must(h.c.Submit(h.ctx, singleworker.Job{Name: job, Schedule: "* * * * * ?", Handler: "fail"}))
	time.Sleep(5 * time.Second)
	h.mu.Lock()
	n := h.told[job]
	h.mu.Unlock()
	if told != (n > 0) {
		h.Errorf("%s told %d times of the new job, want that it does: %v", id, n, told)
	}
	h.must(h.c.Cancel(h.ctx, job))
	stop()
}

// slotOf names a slot of which something is in the part with that number.
func slotOf(part, parts int) string {
	for i := 0; ; i++ {
		name := keyOf("slot", i)
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		if int(h.Sum32())%parts == part {
			return name
		}
	}
}

// Each record of notices that were told is corrupted in turn: the heads one by one, and the parts
// all at once. The sender continues.
func TestCorruptedRecordsOfWhatWasTold(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"head", "parts"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			inHostile(t, func(h *hostile) {
				head := h.c.Tree().Notices()
				time.Sleep(5 * time.Second)
				h.stopFirst()
				time.Sleep(time.Second)
				if kind == "head" {
					for i, bad := range drawn(6, h.read(head, "")) {
						h.write(head, bad)
						var newer struct{ Schema int }
						err := json.Unmarshal(bad, &newer)
						h.tells(keyOf("n", i), err != nil || newer.Schema <= 1 || newer.Schema > 1000)
						h.write(head, nil)
					}
					return
				}
				const parts = 64
				base := []byte{}
				for i := range parts {
					if data := h.read(fmt.Sprintf("%s/%d", head, i), ""); len(data) > len(base) {
						base = data
					}
				}
				if !bytes.Contains(base, []byte(`"episodes":[{`)) {
					h.Fatalf("the parts hold no episode: %s", base)
				}
				for k, some := range slices.Collect(slices.Chunk(drawn(7, base), parts)) {
					for i, bad := range some {
						h.write(fmt.Sprintf("%s/%d", head, i), bytes.ReplaceAll(bad, []byte(`"failing"`), strconv.AppendQuote(nil, slotOf(i, parts))))
					}
					h.tells(keyOf("n", k), true)
				}
			})
		})
	}
}
