package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/wrongclock"
	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// An incident goes wrong in production, and an operator who has only swctl asks one command about
// it.
type incident struct {
	plant   func(c *cluster, ctl *swctl) (command []string, end func())
	exit    int
	cause   string // matches the answer to this incident's command, and to no other's
	remedy  string // matches it, too; "" if there is nothing left to do
	patient bool   // the command is tried again until it answers so: it takes a while until it goes wrong
}

// incidents are the thirteen that were planted in the design of swctl; the outage has two answers,
// one while it lasts and one afterwards.
var incidents = map[string]incident{
	"no instance has the handler": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			c.start(options{})
			ctl.run(exitOK, "submit", "mails", everySecond, "--handler", "send-mail")
			return []string{"why", "mails"}, nil
		},
		cause: `no instance has registered handler "send-mail"`, remedy: "swctl set mails --handler", patient: true,
	},
	"the handler panics each time": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			c.start(options{})
			ctl.run(exitOK, "submit", "printing", everySecond, "--handler", panics)
			awaitLast(c, "printing", history.StateFailed)
			return []string{"show", "printing"}, nil
		},
		cause: `(?s)handler panicked: out of ink.*integration/instance_test.go:\d+`, remedy: "swctl history printing --failed", patient: true,
	},
	"the handler hangs": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			c.start(options{})
			ctl.run(exitOK, "submit", "sync", everySecond, "--handler", hold, "--hung-after", "2s")
			return []string{"why", "sync"}, nil
		},
		cause: `A run takes so long that it seems to hang`, remedy: "swctl stop-run sync", patient: true,
	},
	"an instance's clock is wrong": {
		plant: func(c *cluster, _ *swctl) ([]string, func()) {
			program, clock := wrongclock.Build(c.t, c.dir, "./chaos/instance"), filepath.Join(c.dir, "clock")
			wrongclock.Set(c.t, clock, time.Minute)
			c.start(options{ID: "right"})
			c.spawnProgram("fast", wrongclock.Env+"="+clock, program, "-servers", c.servers, "-group", c.group, "-id", "fast",
				"-session", session.String(), "-ledger", filepath.Join(c.dir, "chaos"))
			return []string{"doctor"}, nil
		},
		exit: exitNo, cause: `fast: its clock is (59\.\d+s|1m\S*) ahead of ZooKeeper's`, remedy: "swctl instances show fast", patient: true,
	},
	"all slots are full": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			c.start(options{ID: "small", MaxSlots: 1})
			for _, name := range []string{"first", "second"} {
				ctl.run(exitOK, "submit", name, "@daily", "--handler", work)
			}
			return []string{"list", "first", "second"}, nil
		},
		cause: `is full: small owns 1 of at most 1 slots`, remedy: "start another, or raise MaxSlots", patient: true,
	},
	"ZooKeeper has no quorum": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			return []string{"list"}, withoutQuorum(c, ctl)
		},
		exit: exitUnavailable, cause: `ZooKeeper has no quorum`, remedy: "start the servers that are away",
	},
	"ZooKeeper had no quorum": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			back := withoutQuorum(c, ctl)
			at := time.Now()
			time.Sleep(2 * session)
			back()
			return []string{"why", "job", "--at", at.Format(time.RFC3339)}, nil
		},
		cause: `ZooKeeper did not answer a from`, patient: true,
	},
	"swctl's password is wrong": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			closed := newClusterAt(c.t, c.server, "/closed", ourAuth)
			closed.start(options{})
			wrong := filepath.Join(c.dir, "auth")
			c.must(os.WriteFile(wrong, []byte("billing:wrong\n"), 0o600))
			*ctl = *closed.swctl(ctl.program)
			return []string{"submit", "job", "@daily", "--auth-file", wrong}, nil
		},
		exit: exitDenied, cause: `access denied`, remedy: "auth-file",
	},
	"two instances declare a job differently": {
		plant: func(c *cluster, _ *swctl) ([]string, func()) {
			c.start(options{ID: "ten", Jobs: []job.Job{{Name: "report", Schedule: "0 0 10 * * ?", Handler: work}}})
			c.start(options{ID: "eleven", Jobs: []job.Job{{Name: "report", Schedule: "0 0 11 * * ?", Handler: work}}})
			return []string{"show", "report"}, nil
		},
		cause: `(?s)ten.*eleven|eleven.*ten`, remedy: "swctl instances", patient: true,
	},
	"a record is spoilt": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			c.start(options{})
			ctl.run(exitOK, "submit", "ledger", "@daily", "--handler", work)
			_, err := c.raw("").Set(c.node("ledger", "tick"), []byte("{spoilt"), -1)
			c.must(err)
			return []string{"show", "ledger"}, nil
		},
		cause: `/ledger/tick cannot be read`, remedy: "swctl repair ledger", patient: true,
	},
	"an instance is suspended": {
		plant: func(c *cluster, _ *swctl) ([]string, func()) {
			c.start(options{ID: "awake"})
			asleep := c.spawn(options{ID: "asleep", Session: 30 * time.Second})
			c.eventually("it to join", func() error { _, err := c.admin.Instance(c.t.Context(), "asleep"); return err })
			asleep.freeze(c.t)
			return []string{"doctor"}, nil
		},
		cause: `asleep: silent for \d+s`, remedy: "swctl instances show asleep", patient: true,
	},
	"somebody has paused the job": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			c.start(options{})
			ctl.run(exitOK, "submit", "billing", everySecond, "--handler", work)
			c.awaitRun("billing", time.Time{})
			ctl.run(exitOK, "pause", "billing", "--by", "ann", "--reason", "repairs")
			return []string{"why", "billing"}, nil
		},
		cause: `(?i)the job (was|is) paused by ann`, remedy: "swctl resume billing",
	},
	"the schedule never fires": {
		plant: func(c *cluster, _ *swctl) ([]string, func()) {
			c.start(options{})
			return []string{"submit", "feast", "0 0 12 30 2 ?"}, nil
		},
		exit: exitUsage, cause: `never fires`, remedy: "swctl next|1970 to 2099",
	},
	"somebody has canceled the job": {
		plant: func(c *cluster, ctl *swctl) ([]string, func()) {
			c.start(options{})
			ctl.run(exitOK, "submit", "export", "@daily", "--handler", work)
			ctl.run(exitOK, "cancel", "export", "--yes", "--by", "bob", "--reason", "old")
			return []string{"why", "export"}, nil
		},
		exit: exitNotFound, cause: `canceled by bob at .*, old`, remedy: "swctl undelete export",
	},
}

// withoutQuorum takes two of three servers away from a group that has run a job, until back is
// called.
func withoutQuorum(c *cluster, ctl *swctl) (back func()) {
	c.t.Helper()
	e := zkserver.StartEnsemble(c.t, 3)
	own := newClusterOf(c.t, e.Servers()[0], "", "", c.group)
	own.servers = e.Addr()
	*ctl = *own.swctl(ctl.program)
	own.start(options{})
	ctl.run(exitOK, "submit", "job", everySecond, "--handler", work)
	own.awaitRun("job", time.Time{})
	for _, s := range e.Servers()[1:] {
		s.Stop()
	}
	return func() {
		for _, s := range e.Servers()[1:] {
			s.Begin()
		}
		e.Await()
		again := time.Now()
		own.awaitRun("job", again, func(r run) bool { return r.Tick.After(again) })
	}
}

// Each incident is answered by one command with its cause and a remedy, and with no other
// incident's cause.
func TestIncidents(t *testing.T) {
	t.Parallel()
	program := buildSwctl(t)
	for name, planted := range incidents {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, sharedServer.get(t))
			ctl := c.swctl(program)
			command, end := planted.plant(c, ctl)
			var out outcome
			says := func() error {
				var code int
				if out, code = ctl.try(command...); code != planted.exit {
					return fmt.Errorf("swctl %s exits with %d, want %d:\n%s%s", strings.Join(command, " "), code, planted.exit, out.stdout, out.stderr)
				}
				for _, want := range []string{planted.cause, planted.remedy} {
					if text := out.stdout + out.stderr; !regexp.MustCompile(want).MatchString(text) {
						return fmt.Errorf("swctl %s: want %q in\n%s", strings.Join(command, " "), want, text)
					}
				}
				return nil
			}
			if planted.patient {
				c.eventually("the answer of "+command[0], says)
			} else if err := says(); err != nil {
				t.Error(err)
			}
			for other, is := range incidents {
				if other != name && regexp.MustCompile(is.cause).MatchString(out.stdout+out.stderr) {
					t.Errorf("the answer names the cause of %q, too:\n%s%s", other, out.stdout, out.stderr)
				}
			}
			t.Logf("FIGURE swctl %s: %.2f s", command[0], out.took.Seconds())
			if end != nil {
				end()
			}
		})
	}
}
