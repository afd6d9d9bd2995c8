package commands

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// slow is a group with so many jobs that reading them takes half a minute, in which the server
// answers every six seconds, or not any more after some answers.
type slow struct {
	group.Client
	answers int
	onRead  func(nodes int)
}

func (s slow) List(ctx context.Context) ([]admin.JobStatus, error) {
	for k := range 5 {
		if k == s.answers {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		time.Sleep(6 * time.Second)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.onRead(1000 * (k + 1))
	}
	return s.Client.List(ctx)
}

// While the server answers, a long list is not over, and a person sees how far it is.
func TestLongListWhileTheServerAnswers(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		answers  int
		terminal bool
		code     cmdline.ExitCode
		took     time.Duration
		says     string
	}{
		"all answers, for a person":  {5, true, cmdline.ExitOK, 30 * time.Second, "swctl: list: 5000 nodes were read\n"},
		"all answers, for a script":  {5, false, cmdline.ExitOK, 30 * time.Second, ""},
		"silence after two answers":  {2, false, cmdline.ExitTimeout, 22 * time.Second, "not done within 10s"},
		"silence from the beginning": {0, false, cmdline.ExitTimeout, 10 * time.Second, "not done within 10s"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t)
				h.Interactive, h.Now = test.terminal, time.Now
				h.app.dial = func(_ context.Context, cfg admin.Config) (group.Client, error) {
					return slow{h.fake, test.answers, cfg.OnRead}, nil
				}
				began := time.Now()
				code := h.exec("list", "--zk", "zk1")
				if took := time.Since(began); code != test.code || took != test.took {
					t.Errorf("exit %d after %v, want %d after %v: %s", code, took, test.code, test.took, h.errs.String())
				}
				said := h.errs.String()
				if !strings.Contains(said, test.says) || test.says == "" && said != "" {
					t.Errorf("stderr %q, want %q", said, test.says)
				}
			})
		})
	}
}
