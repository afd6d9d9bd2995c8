package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// The documented exit codes of swctl.
const (
	exitOK          = 0
	exitNo          = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 5
	exitDenied      = 6
	exitUnconfirmed = 8
)

// swctl is the real program; its environment selects the cluster.
type swctl struct {
	t       *testing.T
	program string
	env     []string
}

// An outcome is the outcome of one call.
type outcome struct {
	stdout, stderr string
	took           time.Duration
}

// swctlBuild is the program, shared by all tests.
var swctlBuild struct {
	once sync.Once
	dir  string
	err  error
}

func buildSwctl(tb testing.TB) (program string) {
	tb.Helper()
	b := &swctlBuild
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "singleworker-swctl-"); b.err != nil { //nolint:usetesting // as below
			return
		}
		build := exec.Command("go", "build", "-o", b.dir, "../cmd/swctl") //nolint:noctx // it outlives the test that comes first
		if output, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build swctl: %w\n%s", err, output)
		}
	})
	if b.err != nil {
		tb.Fatal(b.err)
	}
	return filepath.Join(b.dir, "swctl")
}

func (c *cluster) swctl(program string) *swctl {
	return &swctl{c.t, program, []string{"SWCTL_ZK=" + c.servers, "SWCTL_SERVER_TYPE=" + c.group, "HOME=" + c.dir}}
}

// try calls swctl.
func (s *swctl) try(args ...string) (out outcome, exitCode int) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), s.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), time.Since(began)}, cmd.ProcessState.ExitCode()
}

// run calls swctl and checks its exit code.
func (s *swctl) run(want int, args ...string) outcome {
	s.t.Helper()
	out, code := s.try(args...)
	if code != want {
		s.t.Errorf("swctl %q exits with %d, want %d\nstdout: %s\nstderr: %s", args, code, want, out.stdout, out.stderr)
	}
	if (want == exitOK) != (out.stderr == "") {
		s.t.Errorf("swctl %q, exit %d, stderr: %q", args, want, out.stderr)
	}
	return out
}

// The parts of swctl's JSON that the tests use.
type jsonJob struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Spec       struct {
		Schedule string `json:"schedule"`
		TimeZone string `json:"time_zone"`
		Handler  string `json:"handler"`
	} `json:"spec"`
	Version int    `json:"version"`
	State   string `json:"state"`
	Owner   *struct {
		InstanceID string    `json:"instance_id"`
		Token      int64     `json:"token"`
		Since      time.Time `json:"since"`
	} `json:"owner"`
	Registered []string   `json:"registered"`
	NextRunAt  *time.Time `json:"next_run_at"`
	LastRun    *struct {
		Tick       time.Time `json:"tick"`
		State      string    `json:"state"`
		InstanceID string    `json:"instance_id"`
		Token      int64     `json:"token"`
	} `json:"last_run"`
}

type jsonInstance struct {
	InstanceID string    `json:"instance_id"`
	PID        int       `json:"pid"`
	StartedAt  time.Time `json:"started_at"`
	Owned      int       `json:"owned"`
	State      string    `json:"state"`
}

type jsonList[T any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Items      []T    `json:"items"`
}

func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return value
}

func TestSwctl(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	if missing := ctl.run(exitNotFound, "list", "-o", "json").stderr; !strings.Contains(missing, "no such server type") {
		t.Errorf("list of a group that does not exist yet: %s", missing)
	}
	c.start(steady())
	c.start(steady())
	raw := c.raw("")
	c.eventually("the group to exist", func() error {
		_, _, err := raw.Children(c.node("_instances"))
		return err
	})
	if list := decode[jsonList[jsonJob]](t, ctl.run(exitOK, "list", "-o", "json").stdout); list.Items == nil || len(list.Items) != 0 {
		t.Errorf("list of a group without jobs: %+v", list)
	}

	out := ctl.run(exitOK, "submit", "job", everySecond, "--handler", work, "--arg", "for=30ms")
	if !strings.HasPrefix(out.stdout, "created job") || !strings.Contains(out.stdout, "next 20") {
		t.Errorf("submit says %q, want what was done and when the job runs next", out.stdout)
	}
	first := c.awaitRun("job", time.Time{}, ended)
	ctl.run(exitOK, "submit", "--tz=Europe/Berlin", "nightly", "0 0 3 * * ?", "--handler", work)
	awaitLast(c, "job", "ok")
	c.awaitEven(2, 2)

	job := decode[jsonJob](t, ctl.run(exitOK, "show", "job", "-o", "json").stdout)
	switch {
	case job.APIVersion != "swctl/v1" || job.Kind != "Job" || job.Name != "job" || job.Spec.Schedule != everySecond,
		job.Spec.TimeZone != "UTC" || job.Spec.Handler != work || job.Version != 0 || job.State != "ok",
		job.Owner == nil || job.Owner.InstanceID != first.SID || job.Owner.Token != first.Token,
		!slices.Equal(job.Registered, []string{"a", "b"}) || job.NextRunAt == nil,
		job.LastRun == nil || job.LastRun.InstanceID != first.SID || job.LastRun.Token != first.Token:
		t.Errorf("show: %+v; the job ran as %v", job, first)
	}
	list := decode[jsonList[jsonJob]](t, ctl.run(exitOK, "-o", "json", "list").stdout)
	if list.Kind != "JobList" || len(list.Items) != 2 || list.Items[1].Name != "nightly" || list.Items[1].Spec.TimeZone != "Europe/Berlin" {
		t.Errorf("list: %+v", list)
	}
	table := ctl.run(exitOK, "list").stdout
	for _, want := range []string{"job", "nightly", everySecond, "a", "b"} {
		if !strings.Contains(table, want) {
			t.Errorf("list does not show %q:\n%s", want, table)
		}
	}
	if next := ctl.run(exitOK, "next", "nightly", "-n", "2").stdout; strings.Count(next, "03:00:00") != 2 {
		t.Errorf("next:\n%s\nwant two nights at 03:00:00", next)
	}
	instances := decode[jsonList[jsonInstance]](t, ctl.run(exitOK, "instances", "-o", "json").stdout)
	if instances.Kind != "InstanceList" || len(instances.Items) != 2 ||
		instances.Items[0].State != "active" || instances.Items[0].Owned != 1 || instances.Items[1].PID != os.Getpid() {
		t.Errorf("instances: %+v", instances)
	}

	ctl.run(exitConflict, "submit", "job", "@daily")
	ctl.run(exitOK, "submit", "job", "@daily", "--handler", work, "--replace")
	if job := c.get("job"); job.Job.Schedule != "@daily" {
		t.Errorf("schedule %q after submit --replace", job.Job.Schedule)
	}
	ctl.run(exitUnconfirmed, "cancel", "job") // there is no terminal to ask on
	ctl.run(exitOK, "cancel", "job", "nightly", "--yes")
	for _, args := range [][]string{{"show", "nightly"}, {"cancel", "nightly", "--yes"}, {"next", "nightly"}} {
		if out := ctl.run(exitNotFound, args...); !strings.Contains(out.stderr, "nightly") {
			t.Errorf("%q does not name the job: %s", args, out.stderr)
		}
	}
}

func TestSwctlErrors(t *testing.T) {
	t.Parallel()
	c := newClusterAt(t, sharedServer.get(t), "", ourAuth)
	program := buildSwctl(t)
	c.start(options{})
	c.submit("job", work)
	c.awaitRun("job", time.Time{})
	ctl := c.swctl(program)

	for _, args := range [][]string{
		{"list"}, {"show", "job"}, {"cancel", "job", "--yes"}, {"submit", "job", "@daily", "--replace"}, {"instances"},
	} {
		ctl.run(exitDenied, args...)
	}
	authFile := filepath.Join(c.dir, "auth")
	c.must(os.WriteFile(authFile, []byte(ourAuth+"\n"), 0o600))
	ctl.run(exitOK, "list", "--auth-file", authFile)
	c.must(os.WriteFile(authFile, []byte(otherAuth+"\n"), 0o600))
	ctl.run(exitDenied, "list", "--auth-file", authFile)

	for _, args := range [][]string{
		{"submit", "bad", "61 * * * * ?"}, {"submit", "a/b", "@daily"}, {"submit", "bad", "@daily", "--tz", "Moon/Tycho"},
		{"submit", "never", "0 0 0 30 2 ?"}, {"show"}, {"shwo", "job"},
	} {
		ctl.run(exitUsage, args...)
	}

	proxy := zkserver.NewProxy(t, c.server.Addr())
	away := c.swctl(program)
	away.env = append(away.env, "SWCTL_ZK="+proxy.Addr())
	for name, lose := range map[string]func(){"refused": proxy.Cut, "silent": func() { proxy.Heal(); proxy.Stall() }} {
		lose()
		for _, args := range [][]string{{"list"}, {"submit", "job", "@daily"}, {"cancel", "job", "-y"}} {
			args = append(args, "--timeout", "1s")
			out := away.run(exitUnavailable, args...)
			t.Logf("%s: swctl %q takes %v", name, args, out.took.Round(time.Millisecond))
			if out.took > patience/2 {
				t.Errorf("%s: swctl %q takes %v", name, args, out.took.Round(time.Millisecond))
			}
		}
		// These need no server.
		away.run(exitOK, "next", "--cron", "0 0 3 * * ?", "-n", "3")
		away.run(exitOK, "version")
	}
}

// Without a quorum every command says so, and ends, long before --timeout would be over.
func TestSwctlWithoutQuorum(t *testing.T) {
	t.Parallel()
	e := zkserver.StartEnsemble(t, 3)
	ctl := &swctl{t, buildSwctl(t), []string{"SWCTL_ZK=" + e.Addr(), "SWCTL_SERVER_TYPE=billing", "HOME=" + t.TempDir()}}
	left := e.Servers()[0]
	for _, s := range e.Servers()[1:] {
		s.Kill()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for e.Serving(ctx) {
		select {
		case <-ctx.Done():
			t.Fatal("one of three servers still serves requests")
		case <-time.After(50 * time.Millisecond):
		}
	}
	for _, args := range [][]string{{"list"}, {"pause", "report"}} {
		out := ctl.run(exitUnavailable, args...)
		t.Logf("swctl %q takes %v", args, out.took.Round(time.Millisecond))
		for _, want := range []string{
			"ZooKeeper has no quorum: ", left.Addr() + " is up, and says that it serves no requests", "refused", "\ntry: start the servers that are away, ",
		} {
			if !strings.Contains(out.stderr, want) || out.took > patience/2 {
				t.Errorf("swctl %q after %v: %s; want %q", args, out.took, out.stderr, want)
			}
		}
	}
}
