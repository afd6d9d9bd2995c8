package admin

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// wantTrouble expects the events about trouble since the last call, each as "12:01:00 job late",
// and the others to be of these kinds.
func (on *watching) wantTrouble(what string, want ...string) {
	on.Helper()
	synctest.Wait()
	var got []string
	for _, ev := range on.take() {
		if ev.Kind != EventJobTrouble {
			continue
		}
		text := []string{ev.At.Format(time.TimeOnly), ev.Job}
		all := troubles(*ev.Status)
		for _, slot := range append([]JobStatus{*ev.Status}, ev.Status.Slots...) {
			t := all[slot.Name]
			for _, of := range []struct {
				is   bool
				word string
			}{{t.invalid != "", "invalid"}, {t.overdue != 0, "late"}, {t.hung != "", "hung"}} {
				if of.is {
					text = append(text, strings.TrimPrefix(slot.Name, ev.Job)+of.word)
				}
			}
		}
		if len(ev.Gone) > 0 {
			text = append(text, "without "+strings.Join(ev.Gone, ","))
		}
		got = append(got, strings.Join(text, " "))
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		on.Errorf("%s: got\n%s\nwant\n%s", what, a, b)
	}
}

// A job is reported as late when it becomes so and not when somebody looks next, and no longer when
// its record says so.
func TestWatchTrouble(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "0 */5 * * * ?", HungAfter: 20 * time.Second})
		on := w.watch(w.c, WatchOptions{Trouble: true})
		time.Sleep(5*time.Minute + 59*time.Second)
		on.wantTrouble("not late enough")
		time.Sleep(2 * time.Second)
		on.wantTrouble("late", "12:06:00 job late")
		time.Sleep(3 * time.Minute)
		on.wantTrouble("still late")
		run := zkrec.Run{Tick: noon.Add(5 * time.Minute).UnixMilli(), Started: time.Now().UnixMilli(), RunID: "one", Token: token, Attempt: 1}
		w.claim(run)
		time.Sleep(10 * time.Second)
		on.wantTrouble("it runs", "12:09:01 job")
		time.Sleep(11 * time.Second)
		on.wantTrouble("it hangs", "12:09:21 job hung")
		run.State = history.StateOK
		w.end(zkrec.Entry{Run: run})
		time.Sleep(10 * time.Second)
		on.wantTrouble("it has ended", "12:09:22 job")
		second := w.operator()
		time.Sleep(4 * time.Minute)
		on.wantTrouble("the next tick", "12:11:00 job late")
		begins := w.watch(second, WatchOptions{Trouble: true})
		time.Sleep(time.Second)
		begins.wantTrouble("who comes later hears of it at once", "12:13:32 job late")
		_, err := w.c.Pause(w.Context(), "job", PauseOptions{Until: noon.Add(20 * time.Minute)})
		w.must(err)
		time.Sleep(10 * time.Second)
		on.wantTrouble("it was late before the pause began")
		w.put(w.c.tree.Job("job"), []byte("{"))
		time.Sleep(10 * time.Second)
		on.wantTrouble("a spec that cannot be read", "12:13:43 job invalid")
		_, err = w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@hourly"}, SubmitOptions{Replace: true})
		w.must(err)
		time.Sleep(10 * time.Second)
		on.wantTrouble("it was replaced", "12:13:53 job")
		w.put(w.c.tree.Tick("job"), []byte("{"))
		time.Sleep(10 * time.Second)
		on.wantTrouble("a tick record that cannot be read", "12:14:03 job invalid")
	})
}

// A part of a job that was in trouble is told to be gone.
func TestWatchTroubleOfASlotThatGoes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "0 */5 * * * ?", Everywhere: true})
		for _, sid := range []string{"app-1", "app-2"} {
			w.instance(sid, "job")
			w.put(w.c.tree.Instance(sid), zkrec.Instance{Incarnation: sid + "-1", Specs: zkrec.SpecSchema}.Encode())
			for _, node := range w.c.tree.NewShard(zkrec.InstanceSlot("job", sid), 0) {
				w.multi(zkcreate(node.Path, node.Data))
			}
		}
		on := w.watch(w.c, WatchOptions{Trouble: true})
		for _, sid := range []string{"app-1", "app-2"} {
			time.Sleep(4 * time.Minute)
			for _, node := range slices.Backward(w.c.tree.NewShard(zkrec.InstanceSlot("job", sid), 0)) {
				w.multi(zkdelete(node.Path))
			}
		}
		settle()
		on.wantTrouble("one goes in order, and the other late",
			"12:04:00 job without job/app-1", "12:06:00 job late /app-2late", "12:08:00 job late without job/app-2")
	})
}

// troubled is a group at random, with somebody who watches it.
type troubled struct {
	*world

	r     *rand.Rand
	slots []string
	open  map[string]zkrec.Run
	marks map[string]int64
	live  [2]bool
	ids   int
}

// Reports of trouble agree with a reading of all jobs, whatever was done to the jobs,
// to the instances that run them, and to the connection.
func TestWatchTroubleIsWhatListFinds(t *testing.T) {
	t.Parallel()
	for seed := range *watchSeeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				m := newTroubled(w, uint64(seed))
				client := w.server.Client("watch")
				c := w.dialBy(w.Context(), client.Dial)
				on := w.watch(c, WatchOptions{Trouble: true})
				told := make(map[string]map[string]trouble)
				for step := range 120 {
					for range 1 + m.r.IntN(3) {
						time.Sleep(time.Duration(m.r.IntN(3000)) * time.Millisecond)
						m.act()
					}
					if m.r.IntN(20) == 0 {
						client.Disconnect()
					}
					m.agree(step, on, told)
				}
			})
		})
	}
}

func newTroubled(w *world, seed uint64) *troubled {
	m := &troubled{world: w, r: rand.New(rand.NewPCG(seed, 2)), open: make(map[string]zkrec.Run), marks: make(map[string]int64)}
	w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Instances()))
	for i := range 4 {
		j := job.Job{Name: fmt.Sprintf("job-%d", i), Schedule: "0 * * * * ?", AlarmAfter: 20 * time.Second, HungAfter: 30 * time.Second}
		if i == 3 {
			j.HungAfter = 0
		}
		w.submit(j)
		m.slots = append(m.slots, j.Name)
	}
	return m
}

// act does something that an instance or an operator would do, or that somebody does by mistake.
func (m *troubled) act() {
	slot := m.slots[m.r.IntN(len(m.slots))]
	sid := m.r.IntN(len(m.live))
	switch m.r.IntN(10) {
	case 0, 1, 2, 3:
		m.run(slot)
	case 4:
		m.adopt(fmt.Sprintf("app-%d", sid), slot)
	case 5:
		path := m.c.tree.Instance(fmt.Sprintf("app-%d", sid))
		if m.live[sid] = !m.live[sid]; m.live[sid] {
			m.multi(zkconn.CreateEphemeralOp(path, zkrec.Instance{Incarnation: fmt.Sprintf("app-%d-1", sid)}.Encode()))
		} else {
			m.multi(zkdelete(path))
		}
	case 6:
		_, err := m.c.Pause(m.Context(), slot, PauseOptions{Until: time.Now().Add(time.Duration(1+m.r.IntN(90)) * time.Second)})
		m.ignore(err)
	case 7:
		_, err := m.c.Resume(m.Context(), slot, ResumeOptions{})
		m.ignore(err)
	case 8:
		m.put(m.c.tree.Job(slot), []byte("{"))
		time.Sleep(time.Duration(m.r.IntN(5000)) * time.Millisecond)
		_, err := m.c.Submit(m.Context(), job.Job{Name: slot, Schedule: "0 * * * * ?", AlarmAfter: 20 * time.Second, HungAfter: 30 * time.Second}, SubmitOptions{Replace: true})
		m.ignore(err)
	case 9:
		time.Sleep(time.Duration(m.r.IntN(100)) * time.Second)
	}
}

// ignore ends the test only when it is over: a job that is not paused cannot be resumed.
func (m *troubled) ignore(err error) {
	m.Helper()
	if err != nil && m.Context().Err() != nil {
		m.must(err)
	}
}

// run has the owner begin a run, or end the one in progress.
func (m *troubled) run(slot string) {
	m.Helper()
	run, open := m.open[slot]
	now := time.Now()
	if open {
		delete(m.open, slot)
		run.State, run.Ended = history.StateOK, now.UnixMilli()
		m.record(slot, zkrec.Tick{Watermark: m.marks[slot], Run: run}, m.log(slot).Add(zkrec.MinHistory, 0, zkrec.Entry{Run: run}))
		return
	}
	_, stat, err := m.hand.conn.Get(m.Context(), m.c.tree.Alive(slot))
	m.must(err)
	m.ids++
	run = zkrec.Run{Tick: now.Truncate(time.Minute).UnixMilli(), Started: now.UnixMilli(), RunID: fmt.Sprintf("run-%d", m.ids), State: history.StateRunning, SID: "app-0", Attempt: 1, Token: stat.Mzxid}
	m.open[slot], m.marks[slot] = run, run.Tick
	m.put(m.c.tree.Tick(slot), zkrec.Tick{Watermark: run.Tick, Run: run, History: m.log(slot).Mark()}.Encode())
}

// agree expects that what was told is, soon, what a reading finds.
func (m *troubled) agree(step int, on *watching, told map[string]map[string]trouble) {
	m.Helper()
	var found map[string]map[string]trouble
	for range 8 {
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		found = make(map[string]map[string]trouble)
		jobs, err := m.c.List(m.Context())
		m.must(err)
		for _, j := range jobs {
			if t := troubles(j); len(t) > 0 {
				found[j.Name] = t
			}
		}
		synctest.Wait()
		for _, ev := range on.take() {
			if ev.Kind == EventJobTrouble {
				if told[ev.Job] = troubles(*ev.Status); len(told[ev.Job]) == 0 {
					delete(told, ev.Job)
				}
			}
		}
		if maps.EqualFunc(found, told, maps.Equal) {
			return
		}
	}
	m.Fatalf("step %d, %v: %v was reported, and a reading finds %v", step, time.Now().UTC(), told, found)
}
