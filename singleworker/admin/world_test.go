package admin

import (
	"context"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// world is a group in virtual time, which begins at midnight, 2000-01-01,
// UTC: a server, an operator, and the records of the instances that the test
// makes up.
type world struct {
	*testing.T

	server *zkdev.Server
	c      *Client         // the operator under test
	hand   *Client         // writes the records of instances
	ctx    context.Context //nolint:containedctx // in place of the test's own
}

// Context ends a day after the test began: what waits forever does so in
// virtual time, which is busy.
func (w *world) Context() context.Context { return w.ctx }

// inWorld runs a test that begins at noon.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour)
		w := &world{T: t, server: zkdev.Start(t, zkdev.Config{NoListen: true})}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		t.Cleanup(cancel)
		w.ctx = ctx
		w.c, w.hand = w.operator(), w.operator()
		test(w)
	})
}

// operator dials.
func (w *world) operator() *Client { return w.dial(w.Context()) }

func (w *world) dial(ctx context.Context) *Client { return w.dialBy(ctx, w.server.Dial) }

// dialBy is dial through a Client of the server, say, which can be cut off.
func (w *world) dialBy(ctx context.Context, by func(ctx context.Context, network, address string) (net.Conn, error)) *Client {
	w.Helper()
	c, err := Dial(ctx, Config{Servers: "zkdev:1", ServerType: "billing", Dial: by})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	return c
}

// must ends the test, or, after its end, the calling goroutine.
func (w *world) must(err error) {
	w.Helper()
	switch {
	case err == nil:
	case w.Context().Err() != nil:
		runtime.Goexit()
	default:
		w.Fatal(err)
	}
}

// multi writes records directly.
func (w *world) multi(ops ...zkconn.Op) []zkconn.Stat {
	w.Helper()
	stats, err := w.hand.conn.Multi(w.Context(), ops...)
	w.must(err)
	return stats
}

func (w *world) put(path string, data []byte) zkconn.Stat {
	w.Helper()
	return w.multi(zkconn.SetOp(path, data, zkconn.AnyVersion))[0]
}

// submit submits a job.
func (w *world) submit(job job.Job) {
	w.Helper()
	if _, err := w.c.Submit(w.Context(), job, SubmitOptions{}); err != nil {
		w.Fatal(err)
	}
}

// edit changes a job.
func (w *world) edit(name string, change func(*job.Job)) (Change, error) {
	return w.c.Edit(w.Context(), name, changing(change), EditOptions{})
}

// changing is a change that does not fail.
func changing(change func(*job.Job)) func(*job.Job) error {
	return func(j *job.Job) error {
		change(j)
		return nil
	}
}

func (w *world) get(name string) JobStatus {
	w.Helper()
	status, err := w.c.Get(w.Context(), name)
	w.must(err)
	return status
}

// spec is a job's record.
func (w *world) spec(name string) zkrec.Spec {
	w.Helper()
	data, _, err := w.hand.conn.Get(w.Context(), w.c.tree.Job(name))
	w.must(err)
	spec, err := zkrec.ParseSpec(name, data)
	w.must(err)
	data, _, err = w.hand.conn.Get(w.Context(), w.c.tree.Register(name))
	w.must(err)
	turned, err := zkrec.ParseSwitch(data)
	w.must(err)
	return spec.With(turned)
}

// wantRecord expects the record of the job named "job".
func (w *world) wantRecord(want string) { w.Helper(); w.wantData(w.c.tree.Job("job"), want) }

// wantSwitch expects that of what operators do with it.
func (w *world) wantSwitch(want string) { w.Helper(); w.wantData(w.c.tree.Register("job"), want) }

func (w *world) wantData(path, want string) {
	w.Helper()
	data, _, err := w.hand.conn.Get(w.Context(), path)
	w.must(err)
	if string(data) != want {
		w.Errorf("record of %s\n%s, want\n%s", path, data, want)
	}
}

// instance starts one that has the handler of the job.
func (w *world) instance(sid, job string) {
	w.Helper()
	for _, root := range []string{w.c.tree.Instances(), w.c.tree.Lives()} {
		if err := w.hand.conn.EnsureRoot(w.Context(), root); err != nil {
			w.Fatal(err)
		}
	}
	w.multi(
		zkconn.CreateEphemeralOp(w.c.tree.Instance(sid), zkrec.Instance{Incarnation: sid + "-1", StartedAt: time.Now()}.Encode()),
		zkconn.CreateOp(w.c.tree.Registration(job, sid), nil),
	)
}

// kill ends app-1 as if its session had expired.
func (w *world) kill() {
	w.Helper()
	w.multi(zkdelete(w.c.tree.Instance("app-1")))
}

// adopt makes the instance the owner of the job.
func (w *world) adopt(sid, job string) (token int64) {
	w.Helper()
	return w.put(w.c.tree.Alive(job), zkrec.Owner{SID: sid, Incarnation: sid + "-1"}.Encode()).Mzxid
}

// owned is a job with an instance that owns it.
func (w *world) owned(job job.Job) (token int64) {
	w.Helper()
	w.submit(job)
	w.instance("app-1", job.Name)
	return w.adopt("app-1", job.Name)
}

// claim writes that app-1 runs a tick of "job"; end, what became of the run.
func (w *world) claim(run zkrec.Run) {
	w.Helper()
	run.State, run.SID = history.StateRunning, "app-1"
	w.put(w.c.tree.Tick("job"), zkrec.Tick{Watermark: run.Tick, Run: run, History: w.log("job").Mark()}.Encode())
}

func (w *world) end(entry zkrec.Entry, more ...zkconn.Op) {
	w.Helper()
	entry.SID, entry.Ended = "app-1", time.Now().UnixMilli()
	w.record("job", zkrec.Tick{Watermark: entry.Tick, Run: entry.Run}, w.log("job").Add(zkrec.MinHistory, 0, entry), more...)
}

// late writes that the result of a run of "job" has come late.
func (w *world) late(entry zkrec.Entry) {
	w.Helper()
	log, ok := w.log("job").Amend(entry)
	data, _, err := w.hand.conn.Get(w.Context(), w.c.tree.Tick("job"))
	w.must(err)
	tick, err := zkrec.ParseTick(data, noon)
	if w.must(err); !ok {
		w.Fatalf("the history has no run %s", entry.RunID)
	}
	w.record("job", tick, log)
}

// log is the history of a slot.
func (w *world) log(slot string) zkrec.Log {
	w.Helper()
	results, err := w.hand.readMany(w.Context(), zkconn.ReadsOf(w.c.tree.HistoryPages(slot)...))
	w.must(err)
	pages, err := zkconn.DataOf(results)
	w.must(err)
	log, err := zkrec.ParseLog(pages)
	w.must(err)
	return log
}

// record writes a slot's history and, in the same transaction, its tick record, as instances do.
func (w *world) record(slot string, tick zkrec.Tick, log zkrec.Log, more ...zkconn.Op) {
	w.Helper()
	tick.History = log.Mark()
	ops := append(w.pagesOf(slot, log), zkconn.SetOp(w.c.tree.Tick(slot), tick.Encode(), zkconn.AnyVersion))
	w.multi(append(ops, more...)...)
}

// pagesOf writes what the last change of a history has changed.
func (w *world) pagesOf(slot string, log zkrec.Log) (ops []zkconn.Op) {
	w.Helper()
	for _, page := range log.Changed() {
		path := w.c.tree.HistoryPage(slot, page)
		_, found, err := w.hand.conn.Exists(w.Context(), path)
		w.must(err)
		if found {
			ops = append(ops, zkconn.SetOp(path, log.Encode(page), zkconn.AnyVersion))
		} else {
			ops = append(ops, zkcreate(path, log.Encode(page)))
		}
	}
	return ops
}

// every polls look until the test has ended or look returns true.
func (w *world) every(pause time.Duration, look func() (done bool)) {
	ended := make(chan struct{})
	w.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		for !look() {
			select {
			case <-w.Context().Done():
				return
			case <-time.After(pause):
			}
		}
	}()
}

// noon is when the tests of a world begin.
var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](value T) *T { return &value }

func zkcreate(path string, data []byte) zkconn.Op { return zkconn.CreateOp(path, data) }

func zkdelete(path string) zkconn.Op { return zkconn.DeleteOp(path, zkconn.AnyVersion) }
