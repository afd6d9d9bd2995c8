package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

type badInput struct {
	args string // "~" stands for a blank, "''" for nothing
	says string
}

func (c badInput) check(t *testing.T) {
	t.Helper()
	h := newHarness(t)
	var args []string
	for arg := range strings.FieldsSeq(c.args) {
		args = append(args, strings.TrimPrefix(strings.ReplaceAll(strings.ReplaceAll(arg, "~", " "), "''", "\x00"), "\x00"))
	}
	if code := h.exec(args...); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), c.says) || h.out.Len() > 0 {
		t.Errorf("swctl %s: exit %d, stderr %q, stdout %q; want %q", c.args, code, h.errs.String(), h.out.String(), c.says)
	}
	if n := strings.Count(h.errs.String(), "\n"); n > 3 || len(h.fake.calls) > 0 {
		t.Errorf("swctl %s: %d lines on stderr, calls %q", c.args, n, h.fake.calls)
	}
}

// Bad input of every flag and argument: exit code 2 before any server is
// asked, and a message that names it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []badInput{
		{"list --zk=", "--zk is empty"},
		{"list --zk ''", "--zk is empty"},
		{"list --server-type ''", "--server-type is empty"},
		{"list -o xml", `--output "xml": want one of table, wide, json, jsonl, yaml, name`},
		{"list -o JSON", `--output "JSON": want one of table, wide, json, jsonl, yaml, name`},
		{"list -o ''", "--output is empty"},
		{"list --time utx", `--time "utx": want one of relative, local, utc`},
		{"version -o xml", `--output "xml": want one of table, wide, json, jsonl, yaml, name`},
		{"list --timeout 10", `--timeout "10": want a duration such as 10s`},
		{"list --timeout -1s", `--timeout "-1s": want a duration`},
		{"list --timeout ''", "--timeout is empty"},
		{"list --auth-file ''", "--auth-file is empty"},
		{"list --auth-file " + dir + "/none", "--auth-file: stat " + dir + "/none: no such file"},
		{"list --tls-ca " + dir + "/none", "--tls-ca: open " + dir + "/none: no such file"},
		{"list --tls-cert a", "--tls-cert and --tls-key go together"},
		{"list --tls-key a", "--tls-cert and --tls-key go together"},
		{"list --tls-cert " + dir + "/none --tls-key b", "no such file"},
		{"list [", "is not a pattern of names"},
		{"list --state late,hong", `--state: no job has the state "hong"`},
		{"list --state ''", "--state is empty"},
		{"list --sort size", `--sort "size": want name, state, last, next or owner`},
		{"instances extra", "instances takes no arguments"},
		{"version extra", "version takes no arguments"},
		{"help a b", "help takes one command or topic"},
		{"show", "show needs the name of one job"},
		{"show a b", "show needs the name of one job"},
		{"next", "next needs the name of one job, or --cron SCHEDULE"},
		{"next a b", "next needs the name of one job"},
		{"next a --cron @daily", "--cron and the name of a job are mutually exclusive"},
		{"next a --tz UTC", "--tz goes with --cron"},
		{"next --cron ''", "--cron is empty"},
		{"next --cron @daily --tz ''", "--tz is empty"},
		{"next --cron @daily --tz Mars/Olympus", `--tz "Mars/Olympus": `},
		{"next --cron @daily --tz Local", `--tz "Local": `},
		{"next --cron 0~25~*~*~*", "hour at column 3: 25 is out of range"},
		{"next --cron @at~2001-01-01T00:00:00Z", `schedule "@at 2001-01-01T00:00:00Z": `},
		{"next --cron @daily -n 0", `-n "0": want a number from 1 to 1000`},
		{"next --cron @daily -n -1", `-n "-1": want a number from 1 to 1000`},
		{"next --cron @daily -n 1001", `-n "1001": want a number from 1 to 1000`},
		{"next --cron @daily -n many", `-n "many": want a number from 1 to 1000`},
	} {
		c.check(t)
	}
}

// The same of what changes jobs.
func TestBadInputOfChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "secret"), []byte("ops:s3cret\n"))
	for _, c := range []badInput{
		{"submit", "submit needs a name and a schedule"},
		{"submit a", "submit needs a name and a schedule"},
		{"submit a 0 3 * * *", "the schedule came in 5 parts"},
		{"submit a @every 5m", "try: quote the schedule: swctl submit a '@every 5m'"},
		{"submit a 0 3 README.md", "try: quote the schedule: swctl submit a '0 3 * * *'"},
		{"submit a 0~3~*~*~x", "submit a: schedule \"0 3 * * x\""},
		{"submit _a @daily", `name "_a"`},
		{"submit a/b @daily", `name "a/b"`},
		{"submit '' @daily", `name ""`},
		{"submit a ''", `schedule ""`},
		{"submit a @daily --tz CETT", `--tz "CETT": `},
		{"submit a @daily --tz ''", "--tz is empty"},
		{"submit a @daily --handler ''", "--handler is empty"},
		{"submit a @daily --handler b/c", `--handler "b/c"`},
		{"submit a @daily --arg b", `--arg "b": want key=value`},
		{"submit a @daily --arg =b", `--arg "=b": want key=value`},
		{"submit a @daily --arg b=1 --arg b=2", `the key "b" is given twice`},
		{"submit a @daily --args-json ''", "--args-json is empty"},
		{"submit a @daily --args-json {", `--args-json "{": is not JSON: `},
		{"submit a @daily --args-json @" + dir + "/none", "--args-json: open " + dir + "/none: no such file"},
		{"submit a @daily --args-json -", "--args-json - holds nothing, want JSON"},
		{"submit a @daily --args-json @" + dir + "/secret", "--args-json @" + dir + "/secret: is not JSON, from byte 1 on\n"},
		{"submit ~a @daily", `name " a": begins or ends with a blank`},
		{"submit a[3] @daily", `name "a[3]": is the name of shard 3 of a job "a"`},
		{"submit a @daily --shards 0", `--shards "0": want a number from 1 to 1024`},
		{"submit a @daily --shards -1", `--shards "-1": want a number from 1 to 1024`},
		{"submit a @daily --shards 1025", `--shards "1025": want a number from 1 to 1024`},
		{"submit a @daily --shards many", `--shards "many": want a number from 1 to 1024`},
		{"submit a @daily --shards ''", "--shards is empty"},
		{"submit a @daily --shard-param 0=x", `--shard-param "0": is a parameter, but the job has no shards`},
		{"submit a @daily --shards 3 --shard-param 3=x", `--shard-param "3": is no shard, want 0 to 2`},
		{"submit a @daily --shards 3 --shard-param -1=x", `--shard-param "-1": is no shard, want 0 to 2`},
		{"submit a @daily --shards 3 --shard-param x", `--shard-param "x": want key=value`},
		{"submit a @daily --shards 3 --shard-param x=1", `--shard-param "x=1": want the number of a shard, from 0`},
		{"submit a @daily --shards 3 --shard-param 01=x", `--shard-param "01=x": want the number of a shard, from 0`},
		{"submit a @daily --shards 3 --shard-param 1=x --shard-param 1=y", `--shard-param: the key "1" is given twice`},
		{"submit a @daily --shards 9 --shard-param 1=" + strings.Repeat("x", 64<<10), "--shard-param \"65"},
		{"submit a @daily --misfire never", `--misfire "never": is not known, want one of once, skip, all`},
		{"submit a @daily --misfire ''", "--misfire is empty"},
		{"submit a @daily --misfire-grace -1s", `--misfire-grace "-1s": is negative`},
		{"submit a @daily --misfire-grace 1x", `--misfire-grace "1x": want a duration such as 10s`},
		{"submit a @daily --interrupted no", `--interrupted "no": is not known, want one of rerun, skip`},
		{"submit a @daily --max-attempts 0", `--max-attempts "0": want a number from 1 to 100`},
		{"submit a @daily --overlap allow", `--overlap "allow": is not known, want one of skip, queue`},
		{"submit a @daily --run-timeout -10m", `--run-timeout "-10m0s": is negative`},
		{"submit a @daily --retries 101", `--retries "101": want a number from 0 to 100`},
		{"submit a @daily --retries -1", `--retries "-1": want a number from 0 to 100`},
		{"submit a @daily --backoff 0", `--backoff "0": want a duration such as 10s or 1m30s, or none`},
		{"submit a @daily --alarm-after -1ns", `--alarm-after "-1ns": is negative`},
		{"submit a @daily --backoff 5", `--backoff "5": want a duration such as 10s`},
		{"submit a @daily --alarm-after -1m", `--alarm-after "-1m0s": is negative`},
		{"submit a @daily --arg b=" + strings.Repeat("x", 64<<10), "--arg \"65"},
		{"submit a @daily --label team", `--label "team": want key=value`},
		{"submit a @daily --label a=\x1b[31m", `--label "a=\x1b[31m": contains '\x1b', want printable characters`},
		{"submit a @daily --description \a", `--description "\a": contains '\a'`},
		{"set a --label a:b=c", `--label "a:b=c": has a key with other characters`},
		{"set a --description x --drop-description", "--drop-description and --description are mutually exclusive"},
		{"list -l team", `--label "team": want key=value`},
		{"set", "set needs the name of a job"},
		{"set a", "set: nothing to change was given"},
		{"set a 0 3 * * *", "set takes one job, but 6 arguments came"},
		{"set a --schedule x", `set a: schedule "x"`},
		{"set a --schedule ''", "--schedule is empty"},
		{"set a/b --retries 1", `name "a/b"`},
		{"set a --tz Mars", `--tz "Mars": `},
		{"set a --misfire never", `--misfire "never": is not known`},
		{"set a --shards 0", "--shards 0 would remove the shards of a job"},
		{"set a[3] --shards 2", "set works on a whole job, and a[3] is one of its shards\ntry: swctl set a"},
		{"pause b a[3]", "pause works on a whole job, and a[3] is one of its shards\ntry: swctl pause a"},
		{"resume a[0]", "resume works on a whole job"},
		{"cancel a[0] --yes", "cancel works on a whole job"},
		{"cancel a[0]", "cancel works on a whole job"},
		{"set a --shards -1", `--shards "-1": want a number from 1 to 1024`},
		{"set a --shards 2 --shard-param 2=x", `--shard-param "2": is no shard, want 0 to 1`},
		{"set a --shard-param 1024=x", `--shard-param "1024": is no shard, want 0 to 1023`},
		{"set a --args-json [ --retries 1", `--args-json "[": is not JSON`},
		{"set a --args-json [] --drop-args-json", "--drop-args-json and --args-json are mutually exclusive"},
		{"pause", "pause needs the name of a job"},
		{"resume", "resume needs the name of a job"},
		{"pause a --for 1x", `--for "1x": want a duration such as 90m, 24h or 7d`},
		{"pause a --for 0s", `--for "0s": want a duration`},
		{"pause a --for -1h", `--for "-1h": want a duration`},
		{"pause a --until tomorrow", `--until "tomorrow": is not a time`},
		{"pause a --until 12:00 --for 1h", "--for and --until are mutually exclusive"},
		{"pause a --reason ''", "--reason is empty"},
		{"pause a --by ''", "--by is empty"},
		{"history", "history needs the name of one job"},
		{"history a b", "history needs the name of one job"},
		{"history a -n 0", `-n "0": want a number from 1 to 20480`},
		{"trigger", "trigger needs the name of one job"},
		{"trigger a b", "trigger needs the name of one job"},
		{"trigger a/b/c", `name "a/b/c"`},
		{"trigger a/b/c[3]", `name "a/b/c"`},
		{"trigger a --arg b", `--arg "b": want key=value`},
		{"trigger a --arg b=" + strings.Repeat("x", 64<<10), "--arg \"65"},
		{"trigger a --args-json nope", `--args-json "nope": is not JSON`},
		{"trigger a --reason ''", "--reason is empty"},
		{"stop-run", "stop-run needs the name of one job"},
		{"stop-run a b c", "stop-run needs the name of one job"},
		{"stop-run a ''", "the ID of the run is empty"},
		{"why", "why needs the name of one job"},
		{"why a b", "why needs the name of one job"},
		{"why a --at ''", "--at is empty"},
		{"why a --at noon", `--at "noon": is not a time`},
		{"cancel", "cancel needs the name of a job"},
		{"cancel --all a --yes", "--all and names are mutually exclusive"},
	} {
		c.check(t)
	}
}

func TestBadEnvironment(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.vars = map[string]string{cmdline.EnvServerType: "", cmdline.EnvOutput: ""}
	if code := h.exec("list"); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), "no server type given\ntry: --server-type NAME or SWCTL_SERVER_TYPE=NAME") {
		t.Errorf("exit %d, stderr %q", code, h.errs.String())
	}
	h.vars = map[string]string{cmdline.EnvServerType: "billing", cmdline.EnvOutput: "xml"}
	if code := h.exec("list"); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), `SWCTL_OUTPUT "xml": want one of table, wide, json, jsonl, yaml, name`) {
		t.Errorf("exit %d, stderr %q", code, h.errs.String())
	}
	if code := h.exec("help"); code != cmdline.ExitOK {
		t.Errorf("help: exit %d, stderr %q", code, h.errs.String())
	}
	h.vars[cmdline.EnvOutput] = "json"
	if code := h.exec("bogus"); code != cmdline.ExitUsage || !strings.HasPrefix(h.errs.String(), `{"error":{"code":"invalid",`) {
		t.Errorf("exit %d, stderr %q", code, h.errs.String())
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.vars = map[string]string{cmdline.EnvZK: "zk1:2181/prod", cmdline.EnvServerType: "billing", cmdline.EnvOutput: "json"}
	if code := h.exec("list"); code != cmdline.ExitOK || h.config.Servers != "zk1:2181/prod" || h.config.ServerType != "billing" || h.out.Bytes()[0] != '{' {
		t.Errorf("exit %d, config %+v, stdout %q", code, h.config, h.out.String())
	}
	h.vars = map[string]string{cmdline.EnvServerType: "billing"}
	if h.exec("list"); h.config.Servers != cmdline.DefaultZK {
		t.Errorf("default server %q", h.config.Servers)
	}
}

// Arguments reach the library as they were typed.
func TestSubmitPassesOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec("submit", "a", "*/5 * * * *", "--tz", "Asia/Shanghai", "--handler", "h", "--arg", `x={"k":1,"j":2}`, "--arg", "y=", "--arg=z=a=b,c")
	got, want := h.fake.jobs["a"].Job, job.Job{
		Name: "a", Schedule: "*/5 * * * *", TimeZone: "Asia/Shanghai", Handler: "h",
		Args: map[string]string{"x": `{"k":1,"j":2}`, "y": "", "z": "a=b,c"},
	}.WithDefaults()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v, stderr %q", got, want, h.errs.String())
	}
}

// Every flag of a job ends in the field of its name, and JSON comes from where
// it is said to be.
func TestJobFlags(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payload.json")
	writeFile(t, path, []byte("{\"from\": \"file\"}\n"))
	flags := []string{
		"--tz", "UTC", "--handler", "h", "--misfire", "all", "--misfire-grace", "1h", "--interrupted", "skip",
		"--shards", "4", "--shard-param", "0=Beijing", "--shard-param", "3=a=b,c", "--shard-param", "1=",
		"--max-attempts", "5", "--overlap", "queue", "--run-timeout", "1m", "--retries", "2", "--backoff", "5s", "--alarm-after", "none",
		"--keep-done", "forever", "--hung-after", "none", "--notify", "ops=all", "--notify", "dev=failed, recovered",
	}
	for source, payload := range map[string]string{"[1]": "[1]", "@" + path: "{\"from\": \"file\"}\n", "-": `"stdin"`} {
		want := job.Job{
			Name: "a", Schedule: "@daily", TimeZone: "UTC", Handler: "h", Payload: json.RawMessage(payload),
			Misfire: "all", MisfireGrace: time.Hour, Interrupted: "skip", MaxAttempts: 5, Overlap: "queue",
			Timeout: time.Minute, Retries: 2, Backoff: 5 * time.Second, AlarmAfter: job.NoAlarm, KeepDone: job.KeepForever,
			Shards: 4, ShardParameters: map[int]string{0: "Beijing", 3: "a=b,c"}, HungAfter: job.NoHung,
			Notify: map[string][]job.NotifyKind{"ops": {}, "dev": {job.NotifyFailed, job.NotifyRecovered}},
		}
		for _, line := range [][]string{{"submit", "a", "@daily"}, {"set", "a"}} {
			h := newHarness(t)
			h.Stdin = strings.NewReader(`"stdin"`)
			if line[0] == "set" {
				h.fake.jobs["a"] = admin.JobStatus{Name: "a", Job: job.Job{Name: "a", Schedule: "@daily"}}
			}
			h.exec(append(append(line, flags...), "--args-json", source)...)
			if got := h.fake.jobs["a"].Job; !reflect.DeepEqual(got, want) {
				t.Errorf("%s --args-json %s\n got %+v\nwant %+v\nstderr %s", line[0], source, got, want, h.errs.String())
			}
		}
	}
}

// --timeout bounds every command, and a dead server is told from a slow one.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for line, blocked := range map[string]string{
		"list":                    "List",
		"show nightly":            "Get nightly",
		"next nightly":            "Get nightly",
		"instances":               "Instances",
		"submit a @daily":         "Submit a",
		"set nightly --retries 1": "Edit nightly",
		"why nightly":             "Why nightly",
		"why nightly --at 12:00":  "Get nightly",
		"cancel nightly --yes":    "Cancel nightly",
		"cancel --all --yes":      "List",
		"ls":                      "Dial",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t)
				h.fake.block[blocked] = true
				begin := time.Now()
				code := h.exec(append(strings.Fields(line), "--timeout", "3s")...)
				if code != cmdline.ExitTimeout || time.Since(begin) != 3*time.Second || !strings.Contains(h.errs.String(), "not done within 3s") {
					t.Errorf("exit %d after %v, stderr %q", code, time.Since(begin), h.errs.String())
				}
			})
		})
	}
}

func TestDefaultAndNoTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.fake.block["List"] = true
		begin := time.Now()
		if code := h.exec("list"); code != cmdline.ExitTimeout || time.Since(begin) != cmdline.DefaultTimeout {
			t.Errorf("exit %d after %v", code, time.Since(begin))
		}
		h.app.dial = func(ctx context.Context, _ admin.Config) (group.Client, error) {
			if deadline, ok := ctx.Deadline(); ok {
				t.Errorf("--timeout 0: deadline %v", deadline)
			}
			return nil, admin.ErrUnavailable
		}
		if code := h.exec("list", "--timeout", "0"); code != cmdline.ExitUnavailable {
			t.Errorf("exit %d", code)
		}
	})
}

// An accepted job is a success, however long nobody takes it.
func TestSubmitWaitsShortly(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]time.Duration{"10s": ownerWait, "1s": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t)
			h.fake.block["AwaitOwner a"] = true
			begin := time.Now()
			code := h.exec("submit", "a", "@daily", "--timeout", flag)
			if code != cmdline.ExitOK || time.Since(begin) != want || !strings.Contains(h.out.String(), "owner none yet: no instance has registered") {
				t.Errorf("--timeout %s: exit %d after %v, stdout %q, stderr %q", flag, code, time.Since(begin), h.out.String(), h.errs.String())
			}
		})
	}
}
