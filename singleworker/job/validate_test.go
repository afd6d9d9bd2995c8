package job_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// wantRefused expects that a field was refused with that text.
func wantRefused(t *testing.T, err error, field, want string) {
	t.Helper()
	var refused *invalid.FieldError
	if !errors.As(err, &refused) || refused.Field != field || !strings.HasPrefix(err.Error(), "job."+want) {
		t.Errorf("%v\nwant an *invalid.FieldError of %s: job.%s", err, field, want)
	}
}

func TestValidJobs(t *testing.T) {
	t.Parallel()
	for _, j := range []job.Job{
		{Name: "daily", Schedule: "0 0 3 * * ?"},
		{Name: "daily", Schedule: "*/5 * * * *", TimeZone: "Asia/Shanghai", Handler: "stats", Args: map[string]string{"a": "1"}},
		{Name: "j", Schedule: "@daily", Description: "für\nLeute", Labels: labels(64)},
		{Name: "j", Schedule: "@daily", Labels: map[string]string{"a/b.c-d_e": "any text, = too", "täglich": ""}},
		{Name: "com.example.Job$Inner", Schedule: "@every 90s"},
		{Name: "once", Schedule: "@at 1999-01-01T00:00:00Z"}, // whether it fires again is another question,
		{Name: "once", Schedule: "0 0 0 29 2 ? 2096"},
		{Name: "j", Schedule: "@manually", HungAfter: time.Second, Notify: map[string][]job.NotifyKind{"on call": nil, "dev": job.NotifyKinds()}},
		{Name: "j", Schedule: "@always", Notify: map[string][]job.NotifyKind{"dev": {job.NotifyHung}}},
	} {
		if err := j.Validate(); err != nil {
			t.Errorf("%+v: %v, want it valid", j, err)
		}
	}
}

// A job that always runs has no ticks, and so none of the policies for them.
func TestPoliciesOfAJobThatAlwaysRuns(t *testing.T) {
	t.Parallel()
	always := job.Job{Name: "j", Schedule: "@always", Timeout: time.Hour, Backoff: time.Minute, AlarmAfter: job.NoAlarm, Shards: 3}
	for _, j := range []job.Job{always, always.WithDefaults()} {
		if err := j.Validate(); err != nil {
			t.Errorf("%+v: %v, want it valid", j, err)
		}
	}
	for field, change := range map[string]func(j *job.Job){
		"Misfire":      func(j *job.Job) { j.Misfire = job.MisfireAll },
		"MisfireGrace": func(j *job.Job) { j.MisfireGrace = time.Minute },
		"Interrupted":  func(j *job.Job) { j.Interrupted = job.InterruptedSkip },
		"MaxAttempts":  func(j *job.Job) { j.MaxAttempts = 1 },
		"Overlap":      func(j *job.Job) { j.Overlap = job.OverlapQueue },
		"Retries":      func(j *job.Job) { j.Retries = 2 },
		"Backoff":      func(j *job.Job) { j.Backoff = job.NoBackoff },
		"HungAfter":    func(j *job.Job) { j.HungAfter = time.Hour },
		"KeepDone":     func(j *job.Job) { j.KeepDone = time.Hour },
	} {
		j := always
		change(&j)
		err := j.Validate()
		var refused *invalid.FieldError
		if !errors.As(err, &refused) || refused.Field != field || !strings.Contains(err.Error(), "means nothing for a job that always runs") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func labels(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprint("l", i)] = "v"
	}
	return labels
}

func targets(n int) map[string][]job.NotifyKind {
	targets := map[string][]job.NotifyKind{}
	for i := range n {
		targets[fmt.Sprint("t", i)] = nil
	}
	return targets
}

func TestInvalidJobs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		job         job.Job
		field, want string
	}{
		{job.Job{Schedule: "@daily"}, "Name", `Name "": is empty`},
		{job.Job{Name: "_j", Schedule: "@daily"}, "Name", `Name "_j": begins with "_", which is reserved`},
		{job.Job{Name: "a/b", Schedule: "@daily"}, "Name", `Name "a/b": contains '/'`},
		{job.Job{Name: "j", Schedule: "@daily", Handler: "a/b"}, "Handler", `Handler "a/b": contains '/'`},
		{job.Job{Name: "j", Schedule: "@daily", TimeZone: "Mars"}, "TimeZone", `TimeZone "Mars": unknown time zone Mars`},
		{job.Job{Name: "j", Schedule: "@daily", TimeZone: "Local"}, "TimeZone", `TimeZone "Local": differs between machines`},
		{job.Job{Name: "j[3]", Schedule: "@daily"}, "Name", `Name "j[3]": is the name of shard 3 of a job "j"`},
		{job.Job{Name: "j", Schedule: "@daily", Shards: -1}, "Shards", `Shards "-1": is out of range, want 1 to 1024`},
		{job.Job{Name: "j", Schedule: "@daily", Shards: 1025}, "Shards", `Shards "1025": is out of range, want 1 to 1024`},
		{job.Job{Name: "j", Schedule: "@daily", ShardParameters: map[int]string{0: "a"}}, "ShardParameters",
			`ShardParameters "0": is a parameter, but the job has no shards`},
		{job.Job{Name: "j", Schedule: "@daily", Shards: 2, ShardParameters: map[int]string{2: "a"}}, "ShardParameters",
			`ShardParameters "2": is no shard, want 0 to 1`},
		{job.Job{Name: "j"}, "Schedule", `Schedule "": schedule ""`},
		{job.Job{Name: "j", Schedule: "0 0 25 * * ?"}, "Schedule",
			`Schedule "0 0 25 * * ?": schedule "0 0 25 * * ?": hour at column 5: 25 is out of range, want 0-23`},
		{job.Job{Name: "j", Schedule: "@daily", Description: "a\x1b[31mb"}, "Description", `Description "a\x1b[31mb": contains '\x1b', want printable`},
		{job.Job{Name: "j", Schedule: "@daily", Description: "\xff"}, "Description", `Description "\xff": is not valid UTF-8`},
		{job.Job{Name: "j", Schedule: "@daily", Description: strings.Repeat("x", 1025)}, "Description", `Description "` + strings.Repeat("x", 40) + `...": has 1025 bytes, at most 1024`},
		{job.Job{Name: "j", Schedule: "@daily", Labels: map[string]string{"": "x"}}, "Labels", `Labels "=x": has no key`},
		{job.Job{Name: "j", Schedule: "@daily", Labels: map[string]string{"a b": "x"}}, "Labels", `Labels "a b=x": has a key with other characters`},
		{job.Job{Name: "j", Schedule: "@daily", Labels: map[string]string{"a": "\n"}}, "Labels", `Labels "a=\n": contains '\n'`},
		{job.Job{Name: "j", Schedule: "@daily", Labels: map[string]string{strings.Repeat("k", 64): ""}}, "Labels", `Labels "kkk`},
		{job.Job{Name: "j", Schedule: "@daily", Labels: map[string]string{"a": strings.Repeat("v", 256)}}, "Labels", `Labels "a=vvv`},
		{job.Job{Name: "j", Schedule: "@daily", Require: labels(17)}, "Require", `Require "17 labels": are too many, at most 16`},
		{job.Job{Name: "j", Schedule: "@daily", Require: map[string]string{"": "x"}}, "Require", `Require "=x": has no key`},
		{job.Job{Name: "j", Schedule: "@daily", Instances: []string{"a", "b", "a"}}, "Instances", `Instances "a": is there twice`},
		{job.Job{Name: "j", Schedule: "@daily", Instances: []string{"a/b"}}, "Instances", `Instances "a/b"`},
		{job.Job{Name: "j", Schedule: "@daily", Instances: []string{""}}, "Instances", `Instances ""`},
		{job.Job{Name: "j", Schedule: "@daily", Instances: slices.Sorted(maps.Keys(labels(101)))}, "Instances", `Instances "101 instances": are too many, at most 100`},
		{job.Job{Name: "j", Schedule: "@daily", Labels: labels(65)}, "Labels", `Labels "65 labels": are too many, at most 64`},
		{job.Job{Name: "j", Schedule: "@daily", Misfire: "never"}, "Misfire", `Misfire "never": is not known, want one of once, skip, all`},
		{job.Job{Name: "j", Schedule: "@daily", MisfireGrace: -time.Second}, "MisfireGrace", `MisfireGrace "-1s": is negative`},
		{job.Job{Name: "j", Schedule: "@daily", Interrupted: "no"}, "Interrupted", `Interrupted "no": is not known, want one of rerun, skip`},
		{job.Job{Name: "j", Schedule: "@daily", MaxAttempts: 101}, "MaxAttempts", `MaxAttempts "101": is out of range, want 0 to 100`},
		{job.Job{Name: "j", Schedule: "@daily", Overlap: "allow"}, "Overlap", `Overlap "allow": is not known, want one of skip, queue`},
		{job.Job{Name: "j", Schedule: "@daily", Timeout: -1}, "Timeout", `Timeout "-1ns": is negative`},
		{job.Job{Name: "j", Schedule: "@daily", Retries: -1}, "Retries", `Retries "-1": is out of range, want 0 to 100`},
		{job.Job{Name: "j", Schedule: "@daily", Backoff: -time.Second}, "Backoff", `Backoff "-1s": is negative`},
		{job.Job{Name: "j", Schedule: "@daily", AlarmAfter: -2}, "AlarmAfter", `AlarmAfter "-2ns": is negative`},
		{job.Job{Name: "j", Schedule: "@daily", HungAfter: -2}, "HungAfter", `HungAfter "-2ns": is negative`},
		{job.Job{Name: "j", Schedule: "@daily", Notify: map[string][]job.NotifyKind{"": nil}}, "Notify", `Notify "": the target is empty`},
		{job.Job{Name: "j", Schedule: "@daily", Notify: map[string][]job.NotifyKind{"https://a": nil}}, "Notify", `Notify "https://a": the target contains '/'`},
		{job.Job{Name: "j", Schedule: "@daily", Notify: map[string][]job.NotifyKind{"ops": {"fail"}}}, "Notify", `Notify "ops=fail": is not known, want one of failed, missed, late, hung, recovered`},
		{job.Job{Name: "j", Schedule: "@daily", Notify: map[string][]job.NotifyKind{"ops": {""}}}, "Notify", `Notify "ops=": is empty, want one of failed`},
		{job.Job{Name: "j", Schedule: "@daily", Notify: map[string][]job.NotifyKind{"ops": {"hung", "late", "hung"}}}, "Notify", `Notify "ops=hung": is there twice`},
		{job.Job{Name: "j", Schedule: "@daily", Notify: targets(17)}, "Notify", `Notify "17 targets": are too many, at most 16 are allowed`},
		{job.Job{Name: "j", Schedule: "@daily", Payload: []byte("{}{}")}, "Payload", `Payload "{}{}": is not JSON: `},
		{job.Job{Name: "j", Schedule: "@daily", Args: map[string]string{"a": strings.Repeat("x", 64<<10)}}, "Args",
			`Args "65573 bytes": is too long: a job has at most 65536 bytes`},
	} {
		wantRefused(t, row.job.Validate(), row.field, row.want)
	}

	var where *cronexpr.Error
	if err := (job.Job{Name: "j", Schedule: "0 0 25 * * ?"}).Validate(); !errors.As(err, &where) || where.Column != 5 {
		t.Errorf("%v does not wrap a *cronexpr.Error with the column", err)
	}
}

func TestCheckNodeName(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"daily-stats", "x", "com.example.Job$Inner", "Täglich ежедневно", "a b", "...", "a_b", "{0}", "100%", "zookeeper",
		strings.Repeat("n", job.MaxNameBytes),
	} {
		if err := job.CheckNodeName(good); err != nil {
			t.Errorf("%q %v, want it to be a name", good, err)
		}
	}
	for bad, want := range map[string]string{
		"":                                      "is empty",
		strings.Repeat("n", job.MaxNameBytes+1): "is 201 bytes long, at most 200 are allowed",
		strings.Repeat("é", 101):                "is 202 bytes long, at most 200 are allowed",
		"a\xffb":                                "is not valid UTF-8",
		" a":                                    "begins or ends with a blank",
		"a ":                                    "begins or ends with a blank",
		".":                                     "is a relative path element",
		"..":                                    "is a relative path element",
		"_instances":                            `begins with "_", which is reserved`,
		"a/b":                                   "contains '/', want printable characters without '/'",
		"a\x00b":                                `contains '\x00', want printable characters without '/'`,
		"a\nb":                                  `contains '\n', want printable characters without '/'`,
		"a\u00a0b":                              `contains '\u00a0', want printable characters without '/'`,
		"a\ue000b":                              `contains '\ue000', want printable characters without '/'`,
		"a\ufffdb":                              `contains '�', want printable characters without '/'`,
		"tick\U0001f600":                        "contains '\U0001f600', want printable characters without '/'", // ZooKeeper refuses surrogates
	} {
		if err := job.CheckNodeName(bad); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", bad, err, want)
		}
	}
}

func TestShardNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		job   string
		shard int
		ok    bool
	}{
		"job": {"job", 0, false}, "job[0]": {"job", 0, true}, "job[1023]": {"job", 1023, true}, "a[1][2]": {"a[1]", 2, true},
		"job[]": {"job[]", 0, false}, "job[01]": {"job[01]", 0, false}, "job[-1]": {"job[-1]", 0, false},
		"job[+1]": {"job[+1]", 0, false}, "[3]": {"[3]", 0, false}, "job[3": {"job[3", 0, false}, "job3]": {"job3]", 0, false},
		"job[3].": {"job[3].", 0, false}, "": {"", 0, false}, "job[99999999999999999999]": {"job[99999999999999999999]", 0, false},
	} {
		of, shard, ok := job.SplitShard(name)
		if of != want.job || shard != want.shard || ok != want.ok {
			t.Errorf("SplitShard(%q) = %q, %d, %v; want %+v", name, of, shard, ok, want)
		}
		if ok && job.ShardName(of, shard) != name {
			t.Errorf("ShardName(%q, %d) = %q", of, shard, job.ShardName(of, shard))
		}
	}
	if err := job.CheckName("job[3]"); err == nil || err.Error() != `is the name of shard 3 of a job "job"` {
		t.Errorf("CheckName = %v", err)
	}
	if err := job.CheckName("com.example.Job$Inner"); err != nil {
		t.Error(err)
	}
}

func TestLocation(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "UTC", "UTC": "UTC", "Asia/Shanghai": "Asia/Shanghai", "GMT": "GMT"} {
		if loc, err := (job.Job{TimeZone: name}).Location(); err != nil || loc.String() != want {
			t.Errorf("Location(%q) = %v, %v; want %s", name, loc, err, want)
		}
	}
	for name, want := range map[string]string{
		"Local":        `differs between machines, want an IANA name such as "Europe/Berlin", or an offset such as "GMT+8:00"`,
		"Mars/Olympus": `unknown time zone Mars/Olympus, want an IANA name such as "Europe/Berlin"`,
		"GMT+24":       "unknown time zone GMT+24",
		"GMT+8:60":     "unknown time zone GMT+8:60",
		"GMT+8:0":      "unknown time zone GMT+8:0",
		"GMT8":         "unknown time zone GMT8",
		"../UTC":       "time: invalid location name",
	} {
		if loc, err := (job.Job{TimeZone: name}).Location(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Location(%q) = %v, %v; want %s", name, loc, err, want)
		}
	}
}

// The custom IDs of Java's TimeZone, which ElasticJob's and Quartz' jobs have.
func TestFixedTimeZones(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{
		"GMT+8:00": 8 * time.Hour, "GMT+08:00": 8 * time.Hour, "GMT+8": 8 * time.Hour, "GMT+0800": 8 * time.Hour, "GMT+800": 8 * time.Hour,
		"GMT-3:30": -3*time.Hour - 30*time.Minute, "GMT-0330": -3*time.Hour - 30*time.Minute, "GMT+23:59": 23*time.Hour + 59*time.Minute,
		"GMT-00:00": 0, "GMT+0": 0, "Etc/GMT+8": -8 * time.Hour,
	} {
		loc, err := (job.Job{TimeZone: name}).Location()
		if err != nil {
			t.Error(err)
			continue
		}
		if _, got := time.Unix(0, 0).In(loc).Zone(); time.Duration(got)*time.Second != want || loc.String() != name {
			t.Errorf("%s is %v, %d s east of UTC; want %v", name, loc, got, want)
		}
	}
	s, err := job.Job{Schedule: "0 0 2 * * ?", TimeZone: "GMT+8:00"}.ParseSchedule()
	if err != nil {
		t.Fatal(err)
	}
	after := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	if got, want := s.Next(after), time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("two o'clock in GMT+8:00 is %v, want %v", got.UTC(), want)
	}
}
