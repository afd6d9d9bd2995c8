package commands

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// onGroup runs a test on package admin, a server and two instances, in a bubble at testNow. There
// are three jobs: nightly, orphan, which no instance can run, and レポート, which runs.
func onGroup(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Helper()
	onCluster(t, func(t *testing.T, h *harness, cluster *swtest.Cluster) {
		t.Helper()
		done := func(context.Context, *singleworker.Run) error { return nil }
		blocks := func(ctx context.Context, _ *singleworker.Run) error { <-ctx.Done(); return ctx.Err() }
		cluster.Start("app-1", map[string]singleworker.Handler{"レポート": blocks})
		cluster.Start("app-2", map[string]singleworker.Handler{"report": done, "nightly": done, "weekly": done, "hourly": done, "sync": done}, job.Job{
			Name: "nightly", Schedule: "0 3 * * *", TimeZone: "Europe/Berlin", Handler: "report",
			Args: map[string]string{"to": "ops@example.org", "day": "yesterday"},
		})
		cluster.Submit(job.Job{Name: "orphan", Schedule: "0 12 * * *"})
		cluster.Submit(job.Job{Name: "レポート", Schedule: "0 20 16 * * ?", TimeZone: "Asia/Shanghai"})
		cluster.AwaitOwned("nightly", "レポート")
		time.Sleep(time.Until(testNow))
		test(t, h)
	})
}

// onCluster runs a test on package admin and a server, in a bubble five minutes before testNow.
func onCluster(t *testing.T, test func(t *testing.T, h *harness, cluster *swtest.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(testNow.Add(-5 * time.Minute)))
		cluster := swtest.New(t, swtest.Config{ServerType: "billing", SessionTimeout: 10 * time.Second})
		h := newHarness(t)
		h.Now = time.Now
		h.app.dial = func(ctx context.Context, cfg admin.Config) (group.Client, error) {
			cfg.Dial = cluster.Server().Dial
			return group.Dial(ctx, cfg)
		}
		test(t, h, cluster)
		if len(h.fake.calls) > 0 {
			t.Errorf("the fake was called: %q", h.fake.calls)
		}
	})
}

// random is what differs from one run to the next: when a watch fires and when the client looks
// again a second later are both in time.
var random = regexp.MustCompile(`\b[0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?\b|("(?:token|pid)": |token )[0-9]+|("(?:host|started_at|version|at|since|accounted_through)": )"[^"]*"|[0-9]+s ago|[0-9]+m[0-9]+s`)

// script is the transcript of lines on a group.
func (h *harness) script(lines [][]string) string {
	var texts []string
	for _, args := range lines {
		synctest.Wait() // until the instances have followed the line before
		texts = append(texts, random.ReplaceAllString(h.transcript(args...), "$1$2..."))
	}
	return strings.Join(texts, "\n")
}

// Each file is a group of commands, and their output.
func TestChangesGolden(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][][]string{
		"instances-drain": {
			{"instances", "drain", "app-1", "--reason", "disk"},
			{"instances", "drain", "app-1", "--reason", "disk"},
			{"instances", "drain", "app-1", "--wait", "--by", "bob", "--timeout", "3s"},
			{"stop-run", "レポート"},
			{"instances", "drain", "app-1", "--wait", "--by", "bob"},
			{"instances", "disable", "--reason", "canary", "app-1", "-o", "json"},
			{"instances", "drain", "app-1"},
			{"instances", "disable", "app-9"},
			{"instances", "disable", "app-2"},
			{"instances", "enable", "app-1"},
			{"instances", "enable", "app-1"},
			{"instances", "enable", "app-9", "-o", "json"},
			{"instances", "enable", "app-3"},
			{"instances", "disable", "app-2", "--job", "nightly", "--reason", "disk"},
			{"show", "nightly"},
			{"why", "nightly"},
			{"instances", "enable", "app-2", "--job", "nightly"},
			{"instances", "enable", "app-2", "--job", "nightly"},
			{"instances", "disable", "--host", "db9", "--job", "nightly", "-o", "json"},
			{"instances", "disable", "--host", "db9"},
			{"instances", "enable", "--host", "db9"},
			{"instances", "disable", "--host", "db9", "app-1"},
			{"instances", "disable", "app-2", "--job", "nobody"},
			{"instances", "disable", "app-2", "--job", "nightly[1]"},
			{"instances", "disable", "app-2", "--job", "nightly", "--wait"},
			{"instances", "drain", "app-8"},
			{"instances", "drain"},
			{"instances", "dran", "app-1"},
			{"instances", "app-1"},
			{"drain", "app-1"},
		},
		"submit": {
			{"submit", "weekly", "0 4 * * 1", "--tz", "Europe/Berlin"},
			{"submit", "weekly", "0 4 * * 1", "--tz", "Europe/Berlin"},
			{"submit", "nightly", "0 4 * * *"},
			{"submit", "nightly", "0 4 * * *", "--arg", "day=a,b", "--arg", "x={\"k\":1,\"j\":2}", "--replace", "--dry-run"},
			{"submit", "nightly", "0 4 * * *", "--arg", "day=a,b", "--replace"},
			{"submit", "hourly", "@every 12h", "--dry-run"},
			{"submit", "hourly", "@every 12h", "-o", "json"},
			{"submit", "hourly", "@every 6h", "-o", "json", "--replace"},
			{"submit", "hourly", "@every 4h", "-o", "json"},
			{"submit", "orphan", "0 13 * * *", "--replace"},
		},
		"set": {
			{"set", "nightly", "--schedule", "30 3 * * *", "--arg", "day=today", "--drop-arg", "to", "--retries", "3", "--dry-run"},
			{"set", "nightly", "--schedule", "30 3 * * *", "--arg", "day=today", "--drop-arg", "to", "--retries", "3"},
			{"set", "nightly", "--retries", "3"},
			{"set", "nightly", "--misfire", "all", "--misfire-grace", "1h", "--interrupted", "skip", "--overlap", "queue", "--run-timeout", "10m", "--args-json", `{"n":[1,2]}`},
			{"show", "nightly"},
			{"set", "nightly", "--drop-args-json", "--max-attempts", "5", "--backoff", "1.5s", "--alarm-after", "1h30m", "-o", "json"},
			{"set", "nobody", "--retries", "3"},
		},
		"labels": {
			{"submit", "weekly", "@weekly", "--description", "tidies up", "--label", "team=billing", "--label", "tier=gold"},
			{"set", "nightly", "--label", "team=billing"},
			{"list", "-l", "team=billing"}, {"ls", "-l", "team=billing", "--label", "tier=gold"}, {"list", "-l", "team=sales"},
			{"set", "weekly", "--description", "cleans up", "--drop-label", "tier", "--label", "team=ops=2"},
			{"show", "weekly"}, {"show", "weekly", "-o", "json"},
			{"set", "weekly", "--drop-description", "--drop-label", "team"}, {"show", "weekly"},
			{"list", "-l", "team=billing", "-o", "json"},
		},
		"pause": {
			{"pause", "nightly", "--for", "24h", "--reason", "db migration"},
			{"pause", "nightly", "--for", "24h", "--reason", "db migration"},
			{"pause", "nightly", "レポート", "--by", "ops", "--until", "2026-11-21 18:00", "--missed", "all"},
			{"show", "nightly"},
			{"pause", "nobody", "nightly"},
			{"resume", "nobody"},
			{"pause", "nightly", "--until", "08:00"},
			{"pause", "orphan", "-o", "json"},
			{"resume", "nightly", "orphan"},
			{"resume", "nightly"},
			{"resume", "nightly", "-o", "json"},
		},
		"cancel": {
			{"cancel", "nightly", "--yes"},
			{"cancel", "--yes", "レポート"},
			{"cancel", "nightly", "--yes"},
			{"cancel", "nightly", "orphan", "--yes"},
			{"cancel", "nightly", "orphan", "--yes", "--ignore-missing", "-o", "json"},
			{"cancel", "weekly"},
			{"submit", "weekly", "@weekly"},
			{"submit", "hourly", "@daily"},
			{"cancel", "--all", "-y"},
			{"cancel", "--all", "-y"},
			{"cancel", "--all", "-y", "-o", "json"},
		},
		"shards-set": {
			{"submit", "sync", "@daily", "--shards", "3", "--shard-param", "0=Beijing"},
			{"submit", "sync", "@daily", "--shards", "3", "--shard-param", "0=Beijing"},
			{"submit", "sync", "@daily", "--shards", "4"},
			{"submit", "sync", "@daily", "--shards", "4", "--replace", "--dry-run"},
			{"set", "sync", "--shards", "5", "--shard-param", "0=", "--shard-param", "4=Xian", "--dry-run"},
			{"set", "sync", "--shards", "2", "--shard-param", "2=x", "-o", "json"},
			{"set", "sync", "--shards", "2", "--dry-run", "-o", "json"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onGroup(t, func(t *testing.T, h *harness) {
				t.Helper()
				golden(t, name, h.script(lines))
			})
		})
	}
}
