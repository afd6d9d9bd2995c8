package singleworker

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

func idle(context.Context, *Run) error { return nil }

// wantInvalid expects an *invalid.FieldError for a field, with the given text.
func wantInvalid(t *testing.T, err error, field, want string) {
	t.Helper()
	var refused *invalid.FieldError
	if !errors.As(err, &refused) || refused.Field != field || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant an *invalid.FieldError of %s: %s", err, field, want)
	}
}

func TestHandleRefuses(t *testing.T) {
	t.Parallel()
	m, err := New(valid())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Handle("daily", idle); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		handler Handler
		want    string
	}{
		{"daily", idle, `handler "daily": is already registered`},
		{"other", nil, `handler "other": has no function`},
		{"", idle, `handler "": is empty`},
		{"a/b", idle, `handler "a/b": contains '/'`},
		{"_x", idle, `handler "_x": begins with "_", which is reserved`},
	} {
		wantInvalid(t, m.Handle(row.name, row.handler), "handler", row.want)
	}
	if err := m.Handle("other", idle); err != nil {
		t.Errorf("after it was refused once: %v, want it registered", err)
	}
}

// Middleware wraps each handler once, when it is registered.
func TestMiddleware(t *testing.T) {
	t.Parallel()
	cfg, wrapped := valid(), 0
	cfg.Middleware = func(next Handler) Handler {
		if wrapped++; wrapped == 2 {
			return nil
		}
		return func(ctx context.Context, run *Run) error {
			run.Job += " wrapped"
			return next(ctx, run)
		}
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := m.Handle("daily", func(_ context.Context, run *Run) error { got = run.Job; return nil }); err != nil {
		t.Fatal(err)
	}
	wantInvalid(t, m.Handle("second", idle), "handler", `handler "second": has no function: Config.Middleware returned nil`)
	wantInvalid(t, m.Handle("third", nil), "handler", `handler "third": has no function`)
	if err := m.handlers.of("daily")(t.Context(), &Run{Job: "daily"}); err != nil || got != "daily wrapped" || wrapped != 2 {
		t.Errorf("the handler got %q, %v; %d were wrapped, want 2", got, err, wrapped)
	}
}

func TestScheduleRefuses(t *testing.T) {
	t.Parallel()
	m, err := New(valid())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Schedule(Job{Name: "daily", Schedule: "@daily"}); err != nil {
		t.Fatal(err)
	}
	large := map[string]string{"a": strings.Repeat("x", 64<<10)}
	for _, row := range []struct {
		job         Job
		field, want string
	}{
		{Job{Name: "daily", Schedule: "@hourly"}, "Name", `job.Name "daily": is already declared`},
		{Job{Schedule: "@daily"}, "Name", `job.Name "": is empty`},
		{Job{Name: "a/b", Schedule: "@daily"}, "Name", `job.Name "a/b": contains '/'`},
		{Job{Name: "j", Schedule: "@daily", Handler: ".."}, "Handler", `job.Handler "..": is a relative path element`},
		{Job{Name: "j", Schedule: "@daily", TimeZone: "Local"}, "TimeZone", `job.TimeZone "Local": differs between machines`},
		{Job{Name: "j", Schedule: "@daily", TimeZone: "Mars"}, "TimeZone", `job.TimeZone "Mars": unknown time zone Mars`},
		{Job{Name: "j[3]", Schedule: "@daily"}, "Name", `job.Name "j[3]": is the name of shard 3 of a job "j"`},
		{Job{Name: "j", Schedule: "@daily", Shards: -1}, "Shards", `job.Shards "-1": is out of range, want 1 to 1024`},
		{Job{Name: "j", Schedule: "@daily", Shards: 1025}, "Shards", `job.Shards "1025": is out of range, want 1 to 1024`},
		{Job{Name: "j", Schedule: "@daily", Shards: 2, ShardParameters: map[int]string{2: "x"}}, "ShardParameters",
			`job.ShardParameters "2": is no shard, want 0 to 1`},
		{Job{Name: "j", Schedule: "@daily", ShardParameters: map[int]string{0: "x"}}, "ShardParameters",
			`job.ShardParameters "0": is a parameter, but the job has no shards`},
		{Job{Name: "j"}, "Schedule", `job.Schedule "": schedule ""`},
		{Job{Name: "j", Schedule: "0 0 25 * * ?"}, "Schedule",
			`job.Schedule "0 0 25 * * ?": schedule "0 0 25 * * ?": hour at column 5: 25 is out of range, want 0-23`},
		{Job{Name: "j", Schedule: "0 0 0 31 2 ?"}, "Schedule", `job.Schedule "0 0 0 31 2 ?": schedule`},
		{Job{Name: "j", Schedule: "@daily", Args: large}, "Args", `job.Args "655`},
	} {
		wantInvalid(t, m.Schedule(row.job), row.field, row.want)
	}

	var where *cronexpr.Error
	if err := m.Schedule(Job{Name: "j", Schedule: "0 0 25 * * ?"}); !errors.As(err, &where) || where.Column != 5 {
		t.Errorf("%v does not wrap a *cronexpr.Error with the column", err)
	}
	if err := m.Schedule(Job{Name: "j", Schedule: "@daily"}); err != nil {
		t.Errorf("after it was refused: %v, want it declared", err)
	}
}

// A job that Schedule accepts must still be readable with the mark of a declaration.
func TestScheduleLeavesRoomForItsMark(t *testing.T) {
	t.Parallel()
	for size := 65_400; size < 65_500; size++ {
		m, err := New(valid())
		if err != nil {
			t.Fatal(err)
		}
		err = m.Schedule(Job{Name: "j", Schedule: "@daily", Args: map[string]string{"a": strings.Repeat("x", size)}})
		if err != nil {
			wantInvalid(t, err, "Args", `job.Args "65`)
			return
		}
		spec := zkrec.Spec{Job: m.jobs["j"]}
		spec.Declared = spec.Fingerprint()
		if got := len(spec.Encode()); got > 64<<10 {
			t.Fatalf("an argument of %d bytes is taken, its record has %d", size, got)
		}
	}
	t.Error("no size was refused")
}

// Schedule copies the caller's map: a later change does not affect the declaration.
func TestScheduleCopiesTheArguments(t *testing.T) {
	t.Parallel()
	m, err := New(valid())
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]string{"a": "1"}
	if err := m.Schedule(Job{Name: "j", Schedule: "@daily", Args: args}); err != nil {
		t.Fatal(err)
	}
	args["a"] = "2"
	if got := m.jobs["j"].Args["a"]; got != "1" {
		t.Errorf("the declared argument is %q, want 1", got)
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func refuse(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

// swallow is a network that does not answer, not even with a refusal.
func swallow(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// withoutServer runs a manager for a minute without a server.
func withoutServer(t *testing.T, dial dialFunc, most time.Duration) *Manager {
	t.Helper()
	cfg := valid()
	cfg.Servers, cfg.Auth, cfg.Dial = "zk1,zk2,zk3", "app:secret", dial
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Handle("daily", idle), m.Schedule(Job{Name: "daily", Schedule: "@daily"})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	if err := m.Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil: nothing was to be handed back", err)
	}
	if late := time.Since(start) - time.Minute; late < 0 || late > most {
		t.Errorf("Run ended %v after its context, want at most %v", late, most)
	}
	return m
}

func TestRunWithoutAServerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		dial dialFunc
		most time.Duration
	}{
		"refused":      {refuse, time.Second},
		"not answered": {swallow, 3 * time.Second}, // one for each server
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { withoutServer(t, row.dial, row.most) })
		})
	}
}

func TestRunWithACanceledContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := valid()
		cfg.Dial = refuse
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if err := m.Run(ctx); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("Run = %v after %v, want nil at once", err, time.Since(start))
		}
	})
}

func TestRunTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if err := withoutServer(t, refuse, time.Second).Run(t.Context()); !errors.Is(err, ErrStarted) {
			t.Errorf("a second Run: %v, want ErrStarted", err)
		}
	})
}
