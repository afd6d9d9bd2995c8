package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
)

func keepRunLog(ctx context.Context, cfg childConfig, log *slog.Logger) (err error) {
	o := cfg.Options
	client, err := admin.Dial(ctx, admin.Config{Servers: o.Servers, ServerType: o.Group, Auth: o.Auth, ACL: o.ACL})
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := jsonl.Open(cfg.RunLog, jsonl.Options{MaxBytes: 64 << 10})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return runlog.Run(ctx, client, store, runlog.Options{Group: o.Group, Logger: log})
}

// logged are the lines of a run log, but for headers and marks.
func (c *cluster) logged(dir string) (lines []runlog.Entry) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.jsonl"))
	c.must(err)
	for _, path := range files {
		text, err := os.ReadFile(path)
		c.must(err)
		for row := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) { // another may be being written
			var l struct {
				Schema int
				runlog.Entry
			}
			if err := json.Unmarshal(row, &l); err != nil {
				c.t.Fatalf("%s: %q: %v", path, row, err)
			}
			if l.Schema == 0 && l.Kind != runlog.Mark {
				lines = append(lines, l.Entry)
			}
		}
	}
	return lines
}

// Jobs run while readers of the run log come and are killed in the middle of their work: every run
// is in the files, once.
func TestRunLogOfReadersThatAreKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.start(steady())
	dir := filepath.Join(c.dir, "runlog")
	c.must(os.Mkdir(dir, 0o700))
	var names []string
	for k := range 5 {
		names = append(names, fmt.Sprintf("job-%d", k))
		c.submitJob(job.Job{Name: names[k], Schedule: "@manually", Handler: work, Args: map[string]string{"for": "1ms"}}, admin.SubmitOptions{})
	}
	c.eventually("every job to be owned", func() error {
		for _, name := range names {
			if job := c.get(name); job.State != admin.StateOwned {
				return fmt.Errorf("%s is %s: %s", name, job.State, job.Reason)
			}
		}
		return nil
	})
	triggered := 0
	trigger := func(times int) { // ZooKeeper keeps 20 runs of each job: so many must not come while nobody reads
		for range times {
			for _, name := range names {
				_, err := c.admin.Trigger(t.Context(), name, admin.TriggerOptions{})
				c.must(err)
				triggered++
			}
		}
	}
	spawn := func() *child {
		return c.spawnConfig(nil, childConfig{Options: c.complete(options{ID: fmt.Sprintf("reader-%d", len(c.children))}), RunLog: dir})
	}
	await := func(lines int) {
		t.Helper()
		c.eventually(fmt.Sprintf("%d lines in the run log", lines), func() error {
			if n := len(c.logged(dir)); n < lines {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
	}
	for range 4 {
		reader := spawn()
		await(triggered) // it has caught up
		before := len(c.logged(dir))
		trigger(6)
		await(before + 1) // it is at work
		reader.kill()
		trigger(6)
	}
	reader := spawn()
	await(triggered)
	var missing, others []string
	c.eventually("every run to be in the run log", func() error {
		missing, others = c.compareLog(c.logged(dir))
		if len(missing) > 0 {
			return fmt.Errorf("there is no line of %q", missing)
		}
		return nil
	})
	c.must(reader.terminate())
	if len(others) > 0 {
		t.Errorf("lines that should not be in the run log: %q", others)
	}
}

// compareLog names the runs without a line, and other faults of the lines. A run that was
// interrupted may have another line with its late result, or may have been interrupted before its
// handler was called.
func (c *cluster) compareLog(lines []runlog.Entry) (missing, others []string) {
	c.t.Helper()
	seen, ran := make(map[string]bool), make(map[string]bool)
	for _, r := range c.runs("") {
		ran[r.ID] = true
	}
	for _, l := range lines {
		switch {
		case l.Kind != runlog.Ran:
			others = append(others, fmt.Sprintf("%s of %s: %s", l.Kind, l.Slot, l.Error))
		case l.Amended, !ran[l.RunID] && l.State == history.StateInterrupted:
		case seen[l.RunID], !ran[l.RunID]:
			others = append(others, fmt.Sprintf("run %s of %s, seen before: %v", l.RunID, l.Slot, seen[l.RunID]))
		}
		seen[l.RunID] = true
	}
	for id := range ran {
		if !seen[id] {
			missing = append(missing, id)
		}
	}
	return missing, others
}
