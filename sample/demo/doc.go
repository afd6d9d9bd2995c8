// Package demo is the demonstration: three instances share nine jobs; one is killed, one
// is stopped, a job is cancelled. In the end every run is checked: no tick was run twice,
// and none was lost. It is what swctl dev --demo runs, and sample/cluster.sh with it.
//
// The story is in story.go, one function a step, and reads like the script of an
// operator: it starts processes, sends them signals, and asks swctl. What it does and sees
// goes into a record (package record), which alone is what the verdict comes from.
//
// The instances are real processes: the program that runs the demonstration, started
// again with arguments that have it call [Instance]. None of them outlives it: at its
// end they are told to stop, and killed when they do not; and each ends by itself when
// its standard input does, which is when the demonstration was killed.
package demo

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/swjobs/singleworker/sample/record"
)

// ErrFailed says that the demonstration has not shown what it should; it has printed
// FAIL and the reason.
var ErrFailed = errors.New("the demonstration has failed")

// Config is what a demonstration needs. Session, Runs, Keep and Color may be left out.
type Config struct {
	// Servers is ZooKeeper's connect string, and ServerType a group of instances that
	// does not exist there yet.
	Servers, ServerType string
	// About says in a few words what server it is.
	About string
	// Swctl runs a command line of swctl for that group, and returns its output.
	Swctl func(ctx context.Context, args ...string) (string, error)
	// Instance is the command line, program first, that makes a process call Instance
	// with the arguments that are added to it.
	Instance []string
	// Out gets what happens, as it happens.
	Out io.Writer
	// Color has times and the verdict stand out on a terminal.
	Color bool
	// Keep leaves the record, and the logs of the instances, and says where.
	Keep bool
	// Session is the session timeout of the instances. Default 4s.
	Session time.Duration
	// Runs is how many runs are waited for between two steps. Default 24, which takes
	// about three seconds.
	Runs int
}

// Run shows it all, in about 15 seconds. The last line that it prints is PASS and the
// figures, or FAIL and why: then it returns ErrFailed. If ctx ends first it returns the
// cause. In any case no process and, without Config.Keep, no file is left.
func Run(ctx context.Context, cfg Config) error {
	if !canSignal {
		return errors.New("the demonstration kills processes, which needs Unix signals: use Linux or macOS")
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
		Config: cfg, record: record.Dir(dir), printer: printer{cfg.Out, cfg.Color, time.Now()},
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
		return ErrFailed
	}
	return nil
}

// cleanUp leaves nothing behind, whatever state the demonstration is in.
func (d *demo) cleanUp(ctx context.Context, dir string) {
	d.end()
	if d.submitted {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if _, err := d.Swctl(ctx, "cancel", "--all", "--yes"); err != nil {
			d.sayf("%s has jobs of server type %s left: %v", d.Servers, d.ServerType, err)
		}
	}
	if d.Keep {
		d.sayf("kept %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		d.sayf("%s is left: %v", dir, err)
	}
}
