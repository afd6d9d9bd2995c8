package storetest

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Writer writes the results of runs to a ZooKeeper, as the instances of a group would.
type Writer struct {
	conn      *zkconn.Conn
	tree      zkrec.Tree
	names     []string
	histories []zkrec.Log
	made      map[string]bool // pages of histories
	runs      int
}

// NewWriter submits so many jobs, of which nothing else is run.
func NewWriter(tb testing.TB, servers, serverType string, jobs int) *Writer {
	tb.Helper()
	client, err := admin.Dial(tb.Context(), admin.Config{Servers: servers, ServerType: serverType})
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	w := &Writer{tree: zkrec.NewTree(serverType), histories: make([]zkrec.Log, jobs), made: make(map[string]bool)}
	for i := range jobs {
		w.names = append(w.names, fmt.Sprintf("job-%d", i))
		if _, err := client.Submit(tb.Context(), job.Job{Name: w.names[i], Schedule: "* * * * * ?"}, admin.SubmitOptions{}); err != nil {
			tb.Fatal(err)
		}
	}
	w.conn, err = zkconn.Open(zkconn.Config{Servers: servers, SessionTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}, func(zkconn.Event) {})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.conn.Close)
	return w
}

// Write writes the result of one run of each of the jobs from i to k-1, in one transaction.
func (w *Writer) Write(ctx context.Context, i, k int) error {
	var ops []zkconn.Op
	for ; i < k; i++ {
		now := time.Now().UnixMilli()
		w.runs++
		w.histories[i] = w.histories[i].Add(zkrec.MinHistory, 0, zkrec.Entry{Run: zkrec.Run{
			Tick: now, Started: now, Ended: now, RunID: fmt.Sprintf("run-%d", w.runs), State: history.StateOK, SID: "app-1", Attempt: 1,
		}})
		ops = append(ops, w.written(w.names[i], w.histories[i])...)
	}
	_, err := w.conn.Multi(ctx, ops...)
	return err
}

// written writes a history's changes by the last result, and the tick record that says so.
func (w *Writer) written(name string, log zkrec.Log) []zkconn.Op {
	ops := []zkconn.Op{zkconn.SetOp(w.tree.Tick(name), zkrec.Tick{History: log.Mark()}.Encode(), zkconn.AnyVersion)}
	for _, page := range log.Changed() {
		path := w.tree.HistoryPage(name, page)
		if page == 0 || w.made[path] {
			ops = append(ops, zkconn.SetOp(path, log.Encode(page), zkconn.AnyVersion))
		} else {
			w.made[path] = true
			ops = append(ops, zkconn.CreateOp(path, log.Encode(page)))
		}
	}
	return ops
}

// Runs is how many results were written. Their runs have the IDs run-1, run-2, and so on.
func (w *Writer) Runs() int { return w.runs }
