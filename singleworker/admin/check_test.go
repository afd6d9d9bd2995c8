package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// wantInvalid expects that a field was refused with that text.
func wantInvalid(t *testing.T, err error, field, want string) {
	t.Helper()
	var refused *invalid.FieldError
	if !errors.As(err, &refused) || refused.Field != field || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant an *invalid.FieldError of %s: %s", err, field, want)
	}
}

// wantRefused expects that a field of a job was refused with that text.
func wantRefused(t *testing.T, err error, field, want string) {
	t.Helper()
	var refused *invalid.FieldError
	if !errors.As(err, &refused) || refused.Field != field || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant an *invalid.FieldError of %s: %s", err, field, want)
	}
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for _, row := range []struct {
			job         job.Job
			field, want string
		}{
			{job.Job{Name: "a/b", Schedule: "@daily"}, "Name", `job.Name "a/b": contains '/'`},
			{job.Job{Name: "j", Schedule: "@at 2000-01-01T12:00:00Z"}, "Schedule", `job.Schedule "@at 2000-01-01T12:00:00Z": never fires again`},
			{job.Job{Name: "j", Schedule: "0 0 0 1 1 ? 1990"}, "Schedule", `job.Schedule "0 0 0 1 1 ? 1990": never fires again`},
		} {
			_, err := w.c.Submit(w.Context(), row.job, SubmitOptions{})
			wantRefused(t, err, row.field, row.want)
		}
		if _, err := w.c.Submit(w.Context(), job.Job{Name: "j", Schedule: "@at 2000-01-01T12:00:01Z"}, SubmitOptions{}); err != nil {
			t.Errorf("a tick to come: %v", err)
		}
	})
}

func TestDialRefusesBadConfig(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cfg         Config
		field, want string
	}{
		{Config{ServerType: "billing"}, "Servers", `admin.Config.Servers "": has an empty address, want "host:port,host:port/chroot"`},
		{Config{Servers: "zk1:x", ServerType: "billing"}, "Servers", `admin.Config.Servers "zk1:x": address "zk1:x": port "x"`},
		{Config{Servers: "zk1"}, "ServerType", `admin.Config.ServerType "": is empty`},
		{Config{Servers: "zk1", ServerType: "a/b"}, "ServerType", `admin.Config.ServerType "a/b": contains '/'`},
		{Config{Servers: "zk1", ServerType: "billing", Auth: "hunter2"}, "Auth", `admin.Config.Auth "(not shown)": is not of the form "user:password"`},
		{Config{Servers: "zk1", ServerType: "billing", ACL: "world"}, "ACL", `admin.Config.ACL "world": entry "world" is not "scheme:id:perms"`},
		{Config{Servers: "zk1", ServerType: "billing", ACL: "auth::r"}, "ACL", `admin.Config.ACL "auth::r": entry "auth::r" needs Auth`},
	} {
		client, err := Dial(t.Context(), row.cfg)
		wantInvalid(t, err, row.field, row.want)
		if client != nil {
			t.Errorf("%+v returns a client nevertheless", row.cfg)
		}
	}
}

func TestDialWithoutAServerEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nobody := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		client, err := Dial(ctx, Config{Servers: "zk1", ServerType: "billing", Dial: nobody})
		if client != nil || !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
			t.Errorf("Dial = %v, %v; want ErrUnavailable when the deadline has come", client, err)
		}
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("Dial took %v, want its context's 10s, and one to give up in", took)
		}
		if want := "ZooKeeper did not answer in time: context deadline exceeded; last connection attempt: connection refused; " +
			"at first: ZooKeeper did not answer: zk1:2181 accepts no connections: connection refused"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
}

// Nothing that prints a Config prints the password.
func TestConfigHidesAuth(t *testing.T) {
	t.Parallel()
	cfg := Config{Servers: "zk1:2181", Auth: "ops:hunter2"}
	var printed strings.Builder
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&printed, format+format, cfg, &cfg)
		fmt.Fprintf(&printed, format, struct{ Config Config }{cfg})
	}
	slog.New(slog.NewTextHandler(&printed, nil)).Info("text", "cfg", cfg, "p", &cfg)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("json", "cfg", cfg, "p", &cfg)
	if text := printed.String(); strings.Contains(text, "hunter2") || strings.Count(text, "zk1:2181") != 19 || strings.Count(text, "(not shown)") != 19 {
		t.Error(text)
	}
}
