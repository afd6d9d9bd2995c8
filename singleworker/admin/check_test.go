package admin

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

var testNow = time.Date(2026, 11, 21, 8, 24, 5, 0, time.UTC)

// wantInvalid expects that a field was refused with that text.
func wantInvalid(t *testing.T, err error, field, want string) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant an *InvalidError of %s: %s", err, field, want)
	}
}

func TestCheckTakes(t *testing.T) {
	t.Parallel()
	for _, job := range []Job{
		{Name: "daily", Schedule: "0 0 3 * * ?"},
		{Name: "daily", Schedule: "*/5 * * * *", TimeZone: "Asia/Shanghai", Handler: "stats", Args: map[string]string{"a": "1"}},
		{Name: "com.example.Job$Inner", Schedule: "@every 90s"},
		{Name: "once", Schedule: "@at 2026-11-21T08:24:06Z"},
		{Name: "once", Schedule: "0 0 0 29 2 ? 2096"},
	} {
		if err := Check(job, testNow); err != nil {
			t.Errorf("%+v: %v, want it taken", job, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		job         Job
		field, want string
	}{
		{Job{Schedule: "@daily"}, "Name", `Name "": is empty`},
		{Job{Name: "_j", Schedule: "@daily"}, "Name", `Name "_j": begins with "_", which is reserved`},
		{Job{Name: "a/b", Schedule: "@daily"}, "Name", `Name "a/b": contains '/'`},
		{Job{Name: "j", Schedule: "@daily", Handler: "a/b"}, "Handler", `Handler "a/b": contains '/'`},
		{Job{Name: "j", Schedule: "@daily", TimeZone: "Mars"}, "TimeZone", `TimeZone "Mars": unknown time zone Mars`},
		{Job{Name: "j", Schedule: "@daily", TimeZone: "Local"}, "TimeZone", `TimeZone "Local": differs between machines`},
		{Job{Name: "j[3]", Schedule: "@daily"}, "Name", `Name "j[3]": is the name of shard 3 of a job "j"`},
		{Job{Name: "j", Schedule: "@daily", Shards: -1}, "Shards", `Shards "-1": is out of range, want 1 to 1024`},
		{Job{Name: "j", Schedule: "@daily", Shards: 1025}, "Shards", `Shards "1025": is out of range, want 1 to 1024`},
		{Job{Name: "j", Schedule: "@daily", ShardParameters: map[int]string{0: "a"}}, "ShardParameters",
			`ShardParameters "0": is a parameter, but the job has no shards`},
		{Job{Name: "j", Schedule: "@daily", Shards: 2, ShardParameters: map[int]string{2: "a"}}, "ShardParameters",
			`ShardParameters "2": is no shard, want 0 to 1`},
		{Job{Name: "j"}, "Schedule", `Schedule "": schedule ""`},
		{Job{Name: "j", Schedule: "0 0 25 * * ?"}, "Schedule",
			`Schedule "0 0 25 * * ?": schedule "0 0 25 * * ?": hour at column 5: 25 is out of range, want 0-23`},
		{Job{Name: "j", Schedule: "@at 2026-11-21T08:24:05Z"}, "Schedule", `Schedule "@at 2026-11-21T08:24:05Z": never fires again`},
		{Job{Name: "j", Schedule: "0 0 0 1 1 ? 2020"}, "Schedule", `Schedule "0 0 0 1 1 ? 2020": never fires again`},
		{Job{Name: "j", Schedule: "@daily", Args: map[string]string{"a": strings.Repeat("x", 64<<10)}}, "Args",
			`Args "65584 bytes": is too long: a record has at most 65536 bytes`},
	} {
		wantInvalid(t, Check(row.job, testNow), row.field, row.want)
	}

	var where *cronexpr.Error
	if err := Check(Job{Name: "j", Schedule: "0 0 25 * * ?"}, testNow); !errors.As(err, &where) || where.Column != 5 {
		t.Errorf("%v does not wrap a *cronexpr.Error with the column", err)
	}
}

// A handler that is the default is not written, so that "--handler NAME" and nothing
// are the same job.
func TestDefaultHandlerIsNoDifference(t *testing.T) {
	t.Parallel()
	with := specOf(Job{Name: "daily", Schedule: "@daily", Handler: "daily"})
	without := specOf(Job{Name: "daily", Schedule: "@daily"})
	if with.Fingerprint("daily") != without.Fingerprint("daily") || string(with.Encode()) != "@daily" {
		t.Errorf("written as %s, want @daily", with.Encode())
	}
	if got := jobOf("daily", without).Handler; got != "daily" {
		t.Errorf("its handler is reported as %q, want daily", got)
	}
}

func TestDialRefusesBadConfig(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cfg         Config
		field, want string
	}{
		{Config{ServerType: "billing"}, "Servers", `Servers "": has an empty address, want "host:port,host:port/chroot"`},
		{Config{Servers: "zk1:x", ServerType: "billing"}, "Servers", `Servers "zk1:x": address "zk1:x": port "x"`},
		{Config{Servers: "zk1"}, "ServerType", `ServerType "": is empty`},
		{Config{Servers: "zk1", ServerType: "a/b"}, "ServerType", `ServerType "a/b": contains '/'`},
		{Config{Servers: "zk1", ServerType: "billing", Auth: "hunter2"}, "Auth", `Auth "(not shown)": is not of the form "user:password"`},
		{Config{Servers: "zk1", ServerType: "billing", ACL: "world"}, "ACL", `ACL "world": entry "world" is not "scheme:id:perms"`},
		{Config{Servers: "zk1", ServerType: "billing", ACL: "auth::r"}, "ACL", `ACL "auth::r": entry "auth::r" needs Auth`},
	} {
		client, err := Dial(t.Context(), row.cfg)
		wantInvalid(t, err, row.field, row.want)
		if client != nil {
			t.Errorf("%+v gives a client all the same", row.cfg)
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
		if want := "ZooKeeper did not answer in time: context deadline exceeded; last connection attempt: connection refused"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
}
