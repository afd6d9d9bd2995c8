package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/swjobs/singleworker/sample/record"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// errFailed is returned when the demo has printed FAIL and the reason.
var errFailed = errors.New("demo failed")

// config configures a demo. Session, Runs, Keep and Color are optional.
type config struct {
	// Servers is ZooKeeper's connect string, ServerType a group that does not exist there yet.
	Servers, ServerType string
	// About is a short description of the server.
	About string
	// Instance is the command line of an instance, program first; arguments are appended.
	Instance []string
	// Out receives the progress.
	Out io.Writer
	// Color highlights times and the verdict.
	Color bool
	// Keep keeps the record and the logs of the instances, and prints where they are.
	Keep bool
	// Session is the session timeout of the instances. Default 4s.
	Session time.Duration
	// Runs is how many runs to wait for between two steps. Default 24, which takes about three
	// seconds.
	Runs int
}

// runDemo runs the demo, which takes about 15 seconds. The last line that it prints is PASS and the
// figures, or FAIL and the reason; then it returns errFailed. If ctx ends first, it returns the
// cause. It leaves no process and, without config.Keep, no file behind.
func runDemo(ctx context.Context, cfg config) error {
	if !canSignal {
		return errors.New("the demo kills processes, which needs Unix signals: use Linux or macOS")
	}
	cfg.Session = cmp.Or(cfg.Session, 4*time.Second)
	cfg.Runs = cmp.Or(cfg.Runs, 24)
	dir, err := os.MkdirTemp("", "singleworker-demo.")
	if err != nil {
		return err
	}
	alive, endAll := context.WithCancel(ctx)
	defer endAll()
	d := &demo{
		config: cfg, record: record.Dir(dir), printer: printer{cfg.Out, cfg.Color, time.Now()},
		children: children{alive: alive, endAll: endAll, dir: dir, running: make(map[string]*child)},
	}
	verdict, err := d.play(ctx)
	if ctx.Err() != nil {
		d.sayf("stopping everything")
	} else if err != nil {
		d.showLogs(dir)
		verdict = record.Verdict{Text: err.Error()}
	}
	d.cleanUp(ctx, dir)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.conclude(verdict)
	if !verdict.Pass {
		return errFailed
	}
	return nil
}

// cleanUp removes everything, whatever state the demo is in.
func (d *demo) cleanUp(ctx context.Context, dir string) {
	d.end()
	if d.client != nil {
		defer d.client.Close()
	}
	if d.submitted {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		for _, j := range jobs {
			if _, err := d.client.Cancel(ctx, j.name); err != nil && !errors.Is(err, admin.ErrNotFound) {
				d.sayf("could not delete job %s of server type %s at %s: %v", j.name, d.ServerType, d.Servers, err)
			}
		}
	}
	if d.Keep {
		d.sayf("kept %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		d.sayf("could not remove %s: %v", dir, err)
	}
}
