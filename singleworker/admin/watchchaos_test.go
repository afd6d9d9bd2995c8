package admin

import (
	"context"
	"flag"
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
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

var watchSeeds = flag.Int("watch.seeds", 20, "how many groups TestWatchReportsEverything makes up")

// A group is made up at random, and the connection of who watches it is cut, expires, or stands
// still at random moments. Its reports are compared with the server's transaction log.
func TestWatchReportsEverything(t *testing.T) {
	t.Parallel()
	for seed := range *watchSeeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				m := newMadeUp(w, uint64(seed))
				client := w.server.Client("watch")
				c := w.dialBy(w.Context(), client.Dial)
				on := w.watch(c, WatchOptions{Trouble: seed%2 == 0, Pause: time.Duration(1+m.r.IntN(500)) * time.Millisecond})
				settle()
				from := w.server.Zxid()
				for range 300 {
					time.Sleep(time.Duration(m.r.IntN(300)) * time.Millisecond)
					m.act()
					m.harm(client)
				}
				client.Heal()
				time.Sleep(time.Minute)
				synctest.Wait()
				truth := newTruth(w.server.Log(), from)
				truth.compare(t, on.events)
			})
		})
	}
}

// Who stops watching at random events, and resumes from the cursor of the last one, hears of each
// run at least once. (Of jobs and instances that are gone, only that there are some.)
func TestWatchResumesFromAnyCursor(t *testing.T) {
	t.Parallel()
	for seed := range *watchSeeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				m := newMadeUp(w, uint64(seed))
				c := w.operator()
				told := make(map[string]string) // the last state of each run
				var cursor int64
				ended := make(chan struct{})
				stops := rand.New(rand.NewPCG(uint64(seed), 2))
				ctx, stop := context.WithCancel(w.Context())
				go func() {
					defer close(ended)
					for left := 10; ctx.Err() == nil; left-- {
						for ev, err := range c.Watch(ctx, WatchOptions{Since: cursor, Pause: 300 * time.Millisecond}) {
							if err != nil {
								return
							}
							if cursor > ev.Cursor {
								t.Errorf("the cursor went back from %d to %d", cursor, ev.Cursor)
							}
							cursor = ev.Cursor
							if ev.Kind == EventRunBegun && told[ev.Entry.RunID] == "" || ev.Kind == EventRunEnded {
								told[ev.Entry.RunID] = string(ev.Entry.State)
							}
							if left > 0 && stops.IntN(50) == 0 {
								break
							}
						}
						time.Sleep(time.Duration(stops.IntN(2000)) * time.Millisecond)
					}
				}()
				settle()
				from := w.server.Zxid()
				for range 200 {
					time.Sleep(time.Duration(m.r.IntN(200)) * time.Millisecond)
					m.act()
				}
				time.Sleep(time.Minute)
				stop()
				<-ended
				for slot, runs := range newTruth(w.server.Log(), from).runs {
					want := make(map[string]string)
					for _, text := range runs {
						words := append(strings.Fields(text), string(history.StateRunning))
						want[words[1]] = words[2]
					}
					for id, state := range want {
						if told[id] != state {
							t.Errorf("%s: run %s: %q was reported, want %q", slot, id, told[id], state)
						}
					}
				}
			})
		})
	}
}

// madeUp is a group whose instances are made up.
type madeUp struct {
	*world

	r    *rand.Rand
	jobs []string
	runs map[string]zkrec.Run // in progress
	tick map[string]zkrec.Tick
	logs map[string]zkrec.Log
	lost map[string]zkrec.Entry // their results are to come late
	live map[string]bool
	ids  int
}

func newMadeUp(w *world, seed uint64) *madeUp {
	m := &madeUp{
		world: w, r: rand.New(rand.NewPCG(seed, 1)), runs: make(map[string]zkrec.Run), tick: make(map[string]zkrec.Tick),
		logs: make(map[string]zkrec.Log), lost: make(map[string]zkrec.Entry), live: make(map[string]bool),
	}
	m.must(m.hand.conn.EnsureRoot(m.Context(), m.c.tree.Instances()))
	for i := range 4 {
		name := fmt.Sprintf("job-%d", i)
		m.submit(job.Job{Name: name, Schedule: "@hourly"})
		m.jobs = append(m.jobs, name)
	}
	for range 20 {
		m.act()
	}
	return m
}

// act does something that an instance or an operator would do.
func (m *madeUp) act() {
	name := m.jobs[m.r.IntN(len(m.jobs))]
	sid := fmt.Sprintf("app-%d", m.r.IntN(3))
	switch m.r.IntN(8) {
	case 0, 1, 2:
		m.run(name)
	case 3:
		owner := zkrec.Owner{SID: sid}
		if m.r.IntN(3) == 0 {
			owner = zkrec.Owner{}
		}
		m.put(m.c.tree.Alive(name), owner.Encode())
	case 4:
		path := m.c.tree.Instance(sid)
		if m.live[sid] = !m.live[sid]; m.live[sid] {
			m.ids++
			m.multi(zkconn.CreateEphemeralOp(path, zkrec.Instance{Incarnation: strconv.Itoa(m.ids), State: zkrec.InstanceActive}.Encode()))
		} else {
			m.multi(zkdelete(path))
		}
	case 5:
		if m.live[sid] {
			state := []string{zkrec.InstanceActive, zkrec.InstanceDrained}[m.r.IntN(2)]
			m.put(m.c.tree.Instance(sid), zkrec.Instance{Incarnation: "x", State: state, Owned: m.r.IntN(9)}.Encode())
		}
	case 6:
		m.skip(name)
	case 7:
		m.ids++
		brief := fmt.Sprintf("brief-%d", m.ids)
		m.submit(job.Job{Name: brief, Schedule: "@hourly"})
		time.Sleep(time.Duration(m.r.IntN(1000)) * time.Millisecond)
		_, err := m.c.Cancel(m.Context(), brief)
		m.must(err)
	}
}

// run begins a run, or ends the one in progress, or both at once, as a rerun does.
func (m *madeUp) run(name string) {
	run, open := m.runs[name]
	ended := zkrec.Entry{Run: run}
	ended.Ended = time.Now().UnixMilli()
	if ended.State = history.StateOK; m.r.IntN(3) == 0 {
		ended.State = history.StateInterrupted
	}
	again := !open || m.r.IntN(3) == 0
	log := m.logs[name]
	if open {
		log = log.Add(zkrec.MinHistory, 0, ended)
		delete(m.runs, name)
		run = ended.Run
	}
	if again {
		m.ids++
		now := time.Now().UnixMilli()
		run = zkrec.Run{Tick: now, Started: now, RunID: fmt.Sprintf("run-%d", m.ids), State: history.StateRunning}
		m.runs[name] = run
	}
	m.write(name, zkrec.Tick{Watermark: time.Now().UnixMilli(), Run: run}, log)
	if late, ok := m.lost[name]; ok && m.r.IntN(3) == 0 {
		entries := log.History().Entries
		at := slices.IndexFunc(entries, func(e zkrec.Entry) bool { return e.RunID == late.RunID })
		if amended, kept := log.Amend(late); kept && at > len(entries)-9 { // it is not gone before it is read
			m.write(name, m.tick[name], amended)
		}
		delete(m.lost, name)
	}
	if open && again && ended.State == history.StateInterrupted {
		ended.State = history.StateFailed
		m.lost[name] = ended
	}
}

// write writes a job's tick record, and its history if that is another one than before.
func (m *madeUp) write(name string, tick zkrec.Tick, log zkrec.Log) {
	var ops []zkconn.Op
	if log.Mark() != m.logs[name].Mark() {
		ops = m.pagesOf(name, log)
	}
	tick.History = log.Mark()
	m.multi(append(ops, zkconn.SetOp(m.c.tree.Tick(name), tick.Encode(), zkconn.AnyVersion))...)
	m.tick[name], m.logs[name] = tick, log
}

// skip skips ticks, which may continue a row.
func (m *madeUp) skip(name string) {
	now := time.Now().UnixMilli()
	row := zkrec.Entry{Run: zkrec.Run{Tick: now, State: history.StateSkipped}, Count: 1 + m.r.IntN(3), Reason: history.ReasonPaused}
	row.To = now + int64(row.Count-1)
	through := int64(0)
	if all := m.logs[name].History().Entries; len(all) > 0 && m.r.IntN(2) == 0 {
		through = all[len(all)-1].Last()
	}
	tick := m.tick[name]
	tick.Watermark = row.To
	m.write(name, tick, m.logs[name].Add(zkrec.MinHistory, through, row))
	time.Sleep(10 * time.Millisecond)
}

// harm is what happens to the one that watches.
func (m *madeUp) harm(client *zkdev.Client) {
	switch m.r.IntN(40) {
	case 0:
		client.Disconnect()
	case 1:
		client.Partition()
	case 2:
		for _, session := range m.server.Sessions() {
			if session.Client == "watch" {
				m.must(m.server.ExpireSession(session.ID))
			}
		}
	case 3, 4, 5, 6:
		client.Heal()
	}
}

// truth is what the transaction log says.
type truth struct {
	runs      map[string][]string // by job: "begun a", "ended a ok"
	skipped   map[string]int      // ticks
	owners    map[string][]int64  // zxids
	final     map[string]string   // the last owner
	instances []string            // "joined app-1 1", "left app-1"
	briefs    []string
}

func newTruth(log []zkdev.Txn, from int64) *truth {
	tr := &truth{runs: make(map[string][]string), skipped: make(map[string]int), owners: make(map[string][]int64), final: make(map[string]string)}
	open, histories := make(map[string]string), make(map[string]zkrec.History)
	pages := make(map[string][][]byte)
	tree := zkrec.NewTree("billing")
	for _, txn := range log {
		of, _, _ := strings.Cut(txn.Path, "/history/") // of its first page
		slot, _ := tree.Watched(of)
		sid, isInstance := tree.InstanceOf(txn.Path)
		later := txn.Zxid > from
		switch {
		case txn.Code != 0 || txn.Op == zkdev.OpCheck:
		case isInstance && later && txn.Op == zkdev.OpCreate:
			tr.instances = append(tr.instances, "joined "+sid)
		case isInstance && later && txn.Op == zkdev.OpDelete:
			tr.instances = append(tr.instances, "left "+sid)
		case slot == "":
		case strings.HasPrefix(slot, "brief"):
			if txn.Path == tree.Job(slot) && txn.Op == zkdev.OpCreate && later {
				tr.briefs = append(tr.briefs, slot)
			}
		case txn.Path == tree.Alive(slot) && later:
			owner, _ := zkrec.ParseOwner(txn.Data)
			tr.owners[slot], tr.final[slot] = append(tr.owners[slot], txn.Zxid), owner.SID
		case txn.Path == tree.Tick(slot):
			tick, _ := zkrec.ParseTick(txn.Data, txn.Time)
			if tick.Open() && tick.RunID != open[slot] && later {
				tr.runs[slot] = append(tr.runs[slot], "begun "+tick.RunID)
			}
			open[slot] = tick.RunID
		case strings.HasPrefix(txn.Path, tree.History(slot)):
			if pages[slot] == nil {
				pages[slot] = make([][]byte, zkrec.HistoryPages)
			}
			pages[slot][slices.Index(tree.HistoryPages(slot), txn.Path)] = txn.Data
			history, _ := zkrec.ParseHistory(pages[slot])
			if later {
				tr.told(slot, histories[slot], history)
			}
			histories[slot] = history
		}
	}
	return tr
}

// told notes what a write of a history says. It comes after that of the tick record, or before, in
// one transaction.
func (tr *truth) told(slot string, was, now zkrec.History) {
	states, rows := make(map[string]history.State), make(map[int64]int)
	for _, e := range was.Entries {
		if states[e.RunID] = e.State; e.RunID == "" {
			rows[e.Tick] = e.Ticks()
		}
	}
	for _, e := range now.Entries {
		switch {
		case e.RunID == "":
			tr.skipped[slot] += e.Ticks() - rows[e.Tick]
		case states[e.RunID] == "":
			tr.runs[slot] = append(tr.runs[slot], "ended "+e.RunID+" "+string(e.State))
		case states[e.RunID] != e.State:
			tr.runs[slot] = append(tr.runs[slot], "amended "+e.RunID+" "+string(e.State))
		}
	}
}

// compare expects each to be reported once, in order by job.
func (tr *truth) compare(t *testing.T, events []Event) {
	t.Helper()
	runs, skipped, uncounted := make(map[string][]string), make(map[string]int), make(map[string]bool)
	lastOwner, owners := make(map[string]int64), make(map[string]int)
	unseen, gaps := map[GapWhat]int{}, map[GapWhat]int{}
	ended := make(map[string]bool)
	joined, briefs := 0, 0
	state := map[string]string{}
	for _, ev := range events {
		switch ev.Kind {
		case EventRunBegun:
			runs[ev.Job] = append(runs[ev.Job], "begun "+ev.Entry.RunID)
			if ev.At.Before(ev.Entry.Started) || ev.Entry.Number > 0 && !ev.At.Equal(ev.Entry.Started) { // the latter is told with its end
				t.Errorf("run %s begins at %v, and is told to at %v", ev.Entry.RunID, ev.Entry.Started, ev.At)
			}
		case EventRunEnded:
			first := "ended " + ev.Entry.RunID
			word := first
			ends := func(text string) bool { return strings.HasPrefix(text, first+" ") }
			if ev.Amended && (ended[first] || !slices.ContainsFunc(tr.runs[ev.Job], ends)) {
				word = "amended " + ev.Entry.RunID
			} else if !ev.Amended && !ev.At.Equal(ev.Entry.Ended) {
				t.Errorf("run %s ended at %v, and is told to have at %v", ev.Entry.RunID, ev.Entry.Ended, ev.At)
			}
			ended[first] = true
			runs[ev.Job] = append(runs[ev.Job], word+" "+string(ev.Entry.State))
		case EventTicksSkipped:
			if skipped[ev.Job] += ev.Entry.Count; ev.Entry.Count == 0 {
				if !ev.Continued || skipped[ev.Job] > 0 {
					t.Errorf("%s: a row without a count, and not the first", ev.Job)
				}
				uncounted[ev.Job] = true
			}
		case EventJobOwned, EventJobUnowned:
			owners[ev.Job] += 1 + ev.Unseen
			if ev.Zxid <= lastOwner[ev.Job] || !slices.Contains(tr.owners[ev.Job], ev.Zxid) {
				t.Errorf("%s: owner of %d after %d", ev.Job, ev.Zxid, lastOwner[ev.Job])
			}
			lastOwner[ev.Job] = ev.Zxid
			if final := tr.final[ev.Job]; ev.Zxid == tr.owners[ev.Job][len(tr.owners[ev.Job])-1] && (ev.Owner == nil) != (final == "") {
				t.Errorf("%s: the last owner is %q, %+v", ev.Job, final, ev)
			}
		case EventInstanceJoined:
			joined++
			if state[ev.InstanceID] == "joined" {
				t.Errorf("%s joined twice", ev.InstanceID)
			}
			state[ev.InstanceID] = "joined"
		case EventInstanceLeft:
			state[ev.InstanceID] = "left"
		case EventJobSubmitted:
			briefs++
		case EventGap:
			unseen[ev.Gap.What] += ev.Gap.Count
			gaps[ev.Gap.What]++
		case EventJobChanged, EventJobCanceled, EventInstanceState, EventTicksMissed, EventWatching, EventJobTrouble:
		}
	}
	if gaps[GapRuns] > 0 || gaps[GapRecord] > 0 || gaps[GapLost] > 0 {
		t.Errorf("gaps: %v", gaps)
	}
	for _, name := range slices.Sorted(maps.Keys(tr.runs)) {
		got, results := firsts(runs[name])
		want, wantResults := firsts(tr.runs[name])
		if !slices.Equal(got, want) {
			t.Errorf("%s: runs\n%s\nwant\n%s", name, strings.Join(got, ", "), strings.Join(want, ", "))
		}
		if !maps.Equal(results, wantResults) {
			t.Errorf("%s: last results\n%v\nwant\n%v", name, results, wantResults)
		}
		if skipped[name] != tr.skipped[name] && !uncounted[name] {
			t.Errorf("%s: %d ticks skipped, want %d", name, skipped[name], tr.skipped[name])
		}
	}
	for name, zxids := range tr.owners {
		silent := len(zxids) - owners[name] // the record was emptied twice in a row, say
		if silent < 0 {
			t.Errorf("%s: %d changes of its owner reported, of %d", name, owners[name], len(zxids))
		}
	}
	all := 0
	for _, what := range tr.instances {
		if strings.HasPrefix(what, "joined") {
			all++
		}
	}
	if joined+unseen[GapInstances] != all || briefs+unseen[GapJobs] != len(tr.briefs) {
		t.Errorf("%d instances joined and %d unseen, want %d; %d jobs submitted and %d unseen, want %d",
			joined, unseen[GapInstances], all, briefs, unseen[GapJobs], len(tr.briefs))
	}
}

// firsts is the begins and ends of runs, in order, and their last results: one that came late may
// have been written before the first one was read, and is not in order.
func firsts(runs []string) (order []string, results map[string]string) {
	results = make(map[string]string)
	for _, text := range runs {
		words := strings.Fields(text)
		if words[0] != "amended" {
			order = append(order, words[0]+" "+words[1])
		}
		if words[0] == "ended" || words[0] == "amended" && results[words[1]] != "" { // it ended while it was watched
			results[words[1]] = words[2]
		}
	}
	return order, results
}
