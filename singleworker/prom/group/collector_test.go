package group_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/prom/group"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

var update = flag.Bool("update", false, "write the golden files")

// world is a group in virtual time, and a collector of it.
type world struct {
	*swtest.Cluster

	t         *testing.T
	collector *group.Collector
	registry  *prometheus.Registry
	reads     atomic.Int64 // of nodes in bulk
}

func newWorld(t *testing.T, opts group.Options) *world {
	t.Helper()
	w := &world{t: t, Cluster: swtest.New(t, swtest.Config{ServerType: "billing", SessionTimeout: time.Minute})}
	collector, err := group.NewCollector(admin.Config{
		Servers: "zkdev", ServerType: "billing", Dial: w.Server().Dial, OnRead: func(int) { w.reads.Add(1) },
	}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(collector.Close)
	w.collector, w.registry = collector, prometheus.NewPedanticRegistry()
	w.registry.MustRegister(collector)
	return w
}

// want scrapes, and compares the values of the series that are named, without server_type; "" means
// that there is no such series.
func (w *world) want(series map[string]string) {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	got := make(map[string]string)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{strings.TrimPrefix(f.GetName(), "singleworker_group_")}
			for _, label := range m.GetLabel() {
				if label.GetName() != "server_type" {
					name = append(name, label.GetValue())
				}
			}
			got[strings.Join(name, " ")] = fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
		}
	}
	for name, value := range series {
		if got[name] != value {
			w.t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

func ok(context.Context, *singleworker.Run) error { return nil }

// begin starts a group at an hour's beginning: a job that runs, one that failed three times of
// four, one without handler, one that is paused, and one with shards.
func (w *world) begin() (begun time.Time) {
	w.t.Helper()
	begun = time.Now()
	handlers := map[string]singleworker.Handler{"good": ok, "shards": ok, "paused": ok, "bad": func(_ context.Context, run *singleworker.Run) error {
		if run.Tick.Sub(begun) > time.Minute {
			return errors.New("glass")
		}
		return nil
	}}
	for _, j := range []singleworker.Job{
		{Name: "good"}, {Name: "bad"}, {Name: "nobody"}, {Name: "shards", Shards: 3}, {Name: "paused"},
	} {
		j.Schedule = "0 * * * * ?"
		w.Submit(j)
	}
	client, err := admin.Dial(w.t.Context(), admin.Config{Servers: "zkdev", ServerType: "billing", Dial: w.Server().Dial})
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Pause(w.t.Context(), "paused", admin.PauseOptions{By: "me", Reason: "test"}); err != nil {
		w.t.Fatal(err)
	}
	w.Start("app-1", handlers)
	w.Start("app-2", handlers)
	time.Sleep(time.Until(begun.Add(4*time.Minute + 30*time.Second)))
	return begun
}

// The metrics of a group in which not all is well.
func TestCollector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Options{})
		begun := w.begin()
		at := func(d time.Duration) string { return fmt.Sprint(float64(begun.Add(d).UnixMilli()) / 1000) }
		const minute = time.Minute
		want := map[string]string{
			"up": "1", "reads_total": "1", "read_errors_total": "0", "jobs_omitted": "0", "read_timestamp_seconds": at(4*minute + 30*time.Second),
			"jobs ok": "2", "jobs failing": "1", "jobs nobody": "1", "jobs paused": "1",
			"instances active": "2", "instances drained": "0",
			"job_state good ok": "1", "job_state good unowned": "", "job_state bad failing": "1", "job_state nobody nobody": "1", "job_state paused paused": "1",
			"job_slots shards": "3", "job_slots good": "1",
			"job_overdue_seconds good": "0", "job_overdue_seconds nobody": "210",
			"job_consecutive_failures good": "0", "job_consecutive_failures bad": "3",
			"job_last_success_timestamp_seconds good": at(4 * minute), "job_last_success_timestamp_seconds bad": at(minute),
			"job_last_success_timestamp_seconds shards": at(4 * minute), "job_last_success_timestamp_seconds nobody": "",
			"job_last_run_timestamp_seconds bad": at(4 * minute), "job_last_run_timestamp_seconds nobody": "",
			"job_next_run_timestamp_seconds good": at(5 * minute), "job_runs_in_progress good": "0",
		}
		for _, state := range words.States() {
			if series := "jobs " + state; want[series] == "" {
				want[series] = "0" // each state has a series from the start
			}
		}
		w.want(want)
		problems, err := testutil.GatherAndLint(w.registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	})
}

// A machine whose clock is ten minutes ahead of the group's exports by the group's time. So is the
// only instance's here, which cannot tell that ZooKeeper's is the wrong one.
func TestCollectorWhoseClockIsWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ahead = 10 * time.Minute
		w := newWorld(t, group.Options{})
		w.Server().SetClock(-ahead)
		for _, name := range []string{"good", "nobody"} {
			w.Submit(singleworker.Job{Name: name, Schedule: "0 30 * * * ?"})
		}
		cfg := w.ManagerConfig("app-1")
		cfg.MaxClockOffset = singleworker.NoClockLimit
		m, err := singleworker.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Handle("good", ok); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var ran sync.WaitGroup
		ran.Go(func() { _ = m.Run(ctx) })
		defer ran.Wait()
		defer cancel()
		tick := time.Now().Add(30 * time.Minute)
		for _, after := range []time.Duration{-5 * time.Minute, 5 * time.Minute} { // by the group's time
			at := tick.Add(after + ahead)
			time.Sleep(time.Until(at.Add(-20 * time.Second)))
			w.overdue() // heartbeats come every 15 s here: two readings are enough to tell the time
			time.Sleep(time.Until(at))
			late := w.overdue()
			if want := max(0, after.Seconds()); late["good"] != 0 || math.Abs(late["nobody"]-want) > 20 {
				t.Errorf("%v after the tick: overdue for %v seconds; want that of nobody, for %v", after, late, want)
			}
		}
	})
}

// overdue scrapes by how many seconds jobs are overdue.
func (w *world) overdue() map[string]float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	late := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != "singleworker_group_job_overdue_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "job_name" {
					late[label.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	return late
}

// A limit has metrics once a job names one: how many places runs hold, and for how long others
// wait.
func TestLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Options{Interval: time.Second})
		client, err := admin.Dial(w.t.Context(), admin.Config{Servers: "zkdev", ServerType: "billing", Dial: w.Server().Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.SetLimit(t.Context(), "api", 1, admin.NamedOptions{}); err != nil {
			t.Fatal(err)
		}
		w.want(map[string]string{"up": "1", "limit_places api": ""})
		begun := time.Now()
		long := func(ctx context.Context, _ *singleworker.Run) error {
			<-ctx.Done()
			return ctx.Err()
		}
		for _, name := range []string{"a", "b"} {
			w.Submit(singleworker.Job{Name: name, Schedule: "0 * * * * ?", Limits: map[string]int{"api": 1}})
		}
		w.Start("app-1", map[string]singleworker.Handler{"a": long, "b": long})
		time.Sleep(time.Until(begun.Add(50 * time.Second)))
		w.want(map[string]string{"limit_places api": "1", "limit_places_held api": "0", "limit_instances_waiting api": "0", "limit_wait_seconds api": "0"})
		time.Sleep(40 * time.Second)
		w.want(map[string]string{"limit_places api": "1", "limit_places_held api": "1", "limit_instances_waiting api": "1", "limit_wait_seconds api": "30", "jobs limited": "1"})
	})
}

// The last success is remembered when no record tells of it any more; of shards it is the oldest.
func TestLastSuccess(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	job := func(slots ...admin.JobStatus) admin.JobStatus { return admin.JobStatus{Name: "job", Slots: slots} }
	ended := func(minute int) admin.JobStatus {
		return admin.JobStatus{Name: "job", LastRun: &history.Run{State: history.StateOK, Ended: at(minute)}}
	}
	failing := func(since time.Time) admin.JobStatus {
		return admin.JobStatus{Name: "job", LastRun: &history.Run{State: history.StateFailed, Ended: at(50)}, Failing: &admin.Failing{OK: since}}
	}
	runs := admin.JobStatus{Name: "job", LastRun: &history.Run{State: history.StateRunning}}
	never := admin.JobStatus{Name: "job"}
	for name, row := range map[string]struct {
		readings []admin.JobStatus
		want     time.Time
	}{
		"never":                            {[]admin.JobStatus{never}, time.Time{}},
		"the last run":                     {[]admin.JobStatus{ended(1)}, at(1)},
		"before it failed":                 {[]admin.JobStatus{failing(at(1))}, at(1)},
		"further back than the history":    {[]admin.JobStatus{failing(time.Time{})}, time.Time{}},
		"remembered":                       {[]admin.JobStatus{ended(1), failing(at(1)), failing(time.Time{})}, at(1)},
		"remembered while it runs":         {[]admin.JobStatus{ended(1), runs}, at(1)},
		"the next one":                     {[]admin.JobStatus{ended(1), runs, ended(2)}, at(2)},
		"forgotten with the job":           {[]admin.JobStatus{ended(1), {Name: "other"}, never}, time.Time{}},
		"the oldest of shards":             {[]admin.JobStatus{job(ended(3), failing(at(1)), ended(2))}, at(1)},
		"a shard has never succeeded":      {[]admin.JobStatus{job(ended(3), never)}, time.Time{}},
		"remembered while one shard fails": {[]admin.JobStatus{job(ended(3), ended(1)), job(ended(4), failing(time.Time{}))}, at(1)},
		"not of an instance that is gone": {[]admin.JobStatus{job(ended(3), admin.JobStatus{
			State: admin.StateUnowned, Reason: reason.Reason{Code: reason.Absent}, LastRun: ended(1).LastRun,
		})}, at(3)},
	} {
		if got := group.LastSuccess(row.readings...); !got.Equal(row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// One reading serves all scrapes of an interval, also those that come at once.
func TestReadingsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Options{Interval: 20 * time.Second})
		w.begin()
		var scrapes sync.WaitGroup
		for range 50 {
			scrapes.Go(func() { w.want(map[string]string{"reads_total": "1"}) })
		}
		scrapes.Wait()
		reads := w.reads.Load()
		time.Sleep(20*time.Second - time.Millisecond)
		w.want(map[string]string{"reads_total": "1", "up": "1"})
		if again := w.reads.Load(); reads == 0 || again != reads {
			t.Errorf("%d answers to bulk reads, then %d, within an interval", reads, again)
		}
		time.Sleep(time.Millisecond)
		w.want(map[string]string{"reads_total": "2", "up": "1"})
		if again := w.reads.Load(); again == reads {
			t.Error("nothing was read after an interval")
		}
		time.Sleep(5 * time.Minute)
		w.want(map[string]string{"reads_total": "3"}) // nothing is read while nobody asks
	})
}

// While ZooKeeper is away the group is not up, and nothing is said of its jobs.
func TestGroupCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Options{})
		w.Server().Stop()
		begun := time.Now()
		w.want(map[string]string{"up": "0", "reads_total": "1", "read_errors_total": "1", "jobs ok": "", "read_timestamp_seconds": ""})
		if took := time.Since(begun); took > group.DefaultTimeout {
			t.Errorf("a scrape takes %v", took)
		}
		if err := w.collector.Err(); !errors.Is(err, admin.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		if err := w.Server().Start(); err != nil {
			t.Fatal(err)
		}
		w.begin()
		w.want(map[string]string{"up": "1", "jobs ok": "2"})
		w.Server().Stop()
		time.Sleep(time.Minute)
		w.want(map[string]string{"up": "0", "jobs ok": "", "job_state good ok": "", "instances active": "", "read_errors_total": "2"})
		if err := w.Server().Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		w.want(map[string]string{"up": "1", "jobs ok": "2"})
		if err := w.collector.Err(); err != nil {
			t.Error(err)
		}
		w.collector.Close()
		time.Sleep(time.Minute)
		w.want(map[string]string{"up": "0"})
	})
}

// The first jobs have series, the others are counted.
func TestJobsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for most, omitted := range map[int]string{2: "3", -1: "5", 0: "0"} {
			w := newWorld(t, group.Options{MaxJobs: most})
			for _, name := range []string{"good", "bad", "shards", "nobody", "paused"} {
				w.Submit(singleworker.Job{Name: name, Schedule: "@daily"})
			}
			want := map[string]string{"jobs nobody": "5", "jobs_omitted": omitted, "job_slots bad": "1", "job_slots good": "1", "job_slots shards": ""}
			switch most {
			case -1:
				want["job_slots bad"], want["job_slots good"] = "", ""
			case 0:
				want["job_slots shards"] = "1"
			}
			w.want(want)
		}
	})
}

// A job that runs on every instance counts for instances that are there.
func TestJobOnEveryInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group.Options{})
		begun := time.Now()
		w.Submit(singleworker.Job{Name: "flush", Schedule: "0 * * * * ?", Everywhere: true})
		gone := w.Start("app-1", map[string]singleworker.Handler{"flush": ok})
		w.Start("app-2", map[string]singleworker.Handler{"flush": ok})
		time.Sleep(time.Until(begun.Add(150 * time.Second)))
		w.want(map[string]string{"job_slots flush": "2"})
		if err := gone.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		w.want(map[string]string{
			"job_slots flush": "1", "job_last_success_timestamp_seconds flush": fmt.Sprint(float64(begun.Add(4 * time.Minute).Unix())),
		})
	})
}

// A name that somebody has written into the tree is counted, and ends no scrape.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	bad := func(name string) admin.JobStatus {
		return admin.JobStatus{Name: name, State: admin.StateInvalid, Reason: reason.Reason{Code: reason.BadName}}
	}
	const odd = "a\"b\\c{}=,\u202e"
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(group.Of([]admin.JobStatus{
		bad("\xff"), bad("\xfe"), bad("new\nline"), bad(strings.Repeat("x", 1<<20)), {Name: odd, State: admin.StateOwned},
	}, []admin.Instance{{ID: "\xff", State: admin.InstanceNone}, {ID: strings.Repeat("x", 1<<20), State: admin.InstanceNone}, {ID: "app-1", State: admin.InstanceActive}}))
	w := &world{t: t, registry: registry}
	w.want(map[string]string{
		"jobs invalid": "4", "jobs ok": "1", "job_slots " + odd: "1", "instances none": "2", "instances active": "1", "instance_slots_owned app-1": "0",
		"job_slots \xff": "", "job_slots new\nline": "",
	})
}

// Each condition of a job is a series.
func TestConditions(t *testing.T) {
	t.Parallel()
	report := admin.JobStatus{Name: "report", State: admin.StateOwned, Overdue: time.Unix(1, 0), Failing: &admin.Failing{Runs: 1}}
	report.SetConditions(time.Unix(60, 0))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(group.Of([]admin.JobStatus{report, {Name: "well", State: admin.StateOwned}}, nil))
	w := &world{t: t, registry: registry}
	w.want(map[string]string{
		"job_condition late report warning": "1", "job_condition failing report warning": "1", "job_condition hung report warning": "", "job_state report late": "1",
		"job_condition late well warning": "", "job_state well ok": "1",
	})
}

// METRICS.md is made of the tables.
func TestPage(t *testing.T) {
	t.Parallel()
	const name = "METRICS.md"
	if *update {
		if err := os.WriteFile(name, []byte(group.Page()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || group.Page() != string(want) {
		t.Errorf("%s is not what the tables say (%v); run the test with -update", name, err)
	}
}

// Options that cannot be right are refused at once.
func TestNewCollectorRefuses(t *testing.T) {
	t.Parallel()
	valid := admin.Config{Servers: "zk1", ServerType: "billing"}
	if _, err := group.NewCollector(admin.Config{Servers: "zk1"}, group.Options{}); !errors.As(err, new(*invalid.FieldError)) {
		t.Errorf("without a server type: %v", err)
	}
	for _, opts := range []group.Options{{Interval: -1}, {Timeout: -1}} {
		if _, err := group.NewCollector(valid, opts); err == nil {
			t.Errorf("%+v is accepted", opts)
		}
	}
}
