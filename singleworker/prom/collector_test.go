package prom_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/prom"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

var update = flag.Bool("update", false, "write the golden files")

// running starts a Manager in virtual time, with jobs that run at each full minute.
func running(t *testing.T, jobs ...string) *singleworker.Manager {
	t.Helper()
	c := swtest.New(t, swtest.Config{ServerType: "group", SessionTimeout: time.Minute})
	cfg := c.ManagerConfig("app-1")
	cfg.Logger = slog.New(slog.DiscardHandler)
	m, err := singleworker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		err := errors.Join(
			m.Handle(job, func(_ context.Context, run *singleworker.Run) error {
				time.Sleep(3 * time.Second)
				if run.Tick.Minute() == 2 {
					return errors.New("glass")
				}
				return nil
			}),
			m.Schedule(singleworker.Job{Name: job, Schedule: "0 * * * * ?"}))
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// registered returns a registry of a collector that is checked against its descriptions.
func registered(t *testing.T, c *prom.Collector) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	return registry
}

func gather(t *testing.T, from prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// A Manager that has run one job for three minutes exports these metrics.
func TestCollector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		m := running(t, "report")
		registry := registered(t, prom.NewCollector(m))
		time.Sleep(time.Until(begun.Add(3*time.Minute + 4*time.Second)))
		success := begun.Add(3*time.Minute + 3*time.Second).Unix()
		want := fmt.Sprintf(`
			# HELP singleworker_claims_total Runs that were claimed: first attempts and repeated ones.
			# TYPE singleworker_claims_total counter
			singleworker_claims_total{server_type="group"} 3
			# HELP singleworker_info Always 1; which instance this is, and the version of the library.
			# TYPE singleworker_info gauge
			singleworker_info{instance_id="app-1",server_type="group",version="devel"} 1
			# HELP singleworker_job_consecutive_failures Runs in a row that failed or timed out, since this instance owns the job.
			# TYPE singleworker_job_consecutive_failures gauge
			singleworker_job_consecutive_failures{job_name="report",server_type="group"} 0
			# HELP singleworker_job_last_success_timestamp_seconds When a run last ended well, by the clock of its instance; absent while this instance knows of none.
			# TYPE singleworker_job_last_success_timestamp_seconds gauge
			singleworker_job_last_success_timestamp_seconds{job_name="report",server_type="group"} %d
			# HELP singleworker_job_run_failures_total Runs of the job that have ended without success.
			# TYPE singleworker_job_run_failures_total counter
			singleworker_job_run_failures_total{job_name="report",server_type="group",state="failed"} 1
			singleworker_job_run_failures_total{job_name="report",server_type="group",state="interrupted"} 0
			singleworker_job_run_failures_total{job_name="report",server_type="group",state="timed_out"} 0
			# HELP singleworker_job_runs_total Runs of the job that have ended.
			# TYPE singleworker_job_runs_total counter
			singleworker_job_runs_total{job_name="report",server_type="group"} 3
			# HELP singleworker_ready Whether the instance can take jobs now (1) or not (0), as /readyz says.
			# TYPE singleworker_ready gauge
			singleworker_ready{server_type="group"} 1
			# HELP singleworker_session_changes_total Changes of the session with ZooKeeper, by the state that it came into.
			# TYPE singleworker_session_changes_total counter
			singleworker_session_changes_total{server_type="group",state="connected"} 1
			singleworker_session_changes_total{server_type="group",state="expired"} 0
			singleworker_session_changes_total{server_type="group",state="reconnected"} 0
			singleworker_session_changes_total{server_type="group",state="suspended"} 0
			# HELP singleworker_slots_acquired_total Slots that the instance came to own: free, offered (a hand-over), died or overdue (takeovers).
			# TYPE singleworker_slots_acquired_total counter
			singleworker_slots_acquired_total{reason="died",server_type="group"} 0
			singleworker_slots_acquired_total{reason="free",server_type="group"} 1
			singleworker_slots_acquired_total{reason="offered",server_type="group"} 0
			singleworker_slots_acquired_total{reason="overdue",server_type="group"} 0
			singleworker_slots_acquired_total{reason="unknown",server_type="group"} 0
			# HELP singleworker_slots_owned Slots that the instance owns: a job has one, or one per shard.
			# TYPE singleworker_slots_owned gauge
			singleworker_slots_owned{server_type="group"} 1
		`, success)
		var names []string
		for line := range strings.Lines(want) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "TYPE" {
				names = append(names, fields[2])
			}
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}
		families := gather(t, registry)
		h := families["singleworker_job_run_duration_seconds"].GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 3 || h.GetSampleSum() != 9 {
			t.Errorf("duration: %v, want three runs of 3 s", h)
		}
		for _, b := range h.GetBucket() {
			if want := uint64(3); b.GetUpperBound() < 3 && b.GetCumulativeCount() != 0 || b.GetUpperBound() > 3 && b.GetCumulativeCount() != want {
				t.Errorf("duration: bucket %v", b)
			}
		}
		if n := families["singleworker_run_lateness_seconds"].GetMetric()[0].GetHistogram().GetSampleCount(); n != 3 {
			t.Errorf("lateness of %d runs, want 3", n)
		}
	})
}

// Names, types and labels follow the rules of the ecosystem; every metric is exported, and listed
// on the page.
func TestMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := running(t, "report")
		registry := registered(t, prom.NewCollector(m))
		time.Sleep(time.Minute + 10*time.Second)
		problems, err := testutil.GatherAndLint(registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
		families := gather(t, registry)
		perInstance, perJob := 0, 0
		for name, f := range families {
			for _, metric := range f.GetMetric() {
				series := 1
				if h := metric.GetHistogram(); h != nil {
					series = len(h.GetBucket()) + 3 // that of +Inf, the sum and the count
				}
				if strings.HasPrefix(name, "singleworker_job_") {
					perJob += series
				} else {
					perInstance += series
				}
				for _, label := range metric.GetLabel() {
					switch label.GetName() {
					case "job", "instance", "owner", "type", "env", "service", "zone":
						t.Errorf("%s has the label %s, which collides with labels of the scrape", name, label.GetName())
					}
				}
			}
		}
		if perInstance > 300 || perJob > 30 {
			t.Errorf("%d series of the instance and %d of a job, more than is documented", perInstance, perJob)
		}
		for _, name := range prom.Names() {
			name = strings.TrimSuffix(name, "_bucket")
			if families[name] == nil && families[strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")] == nil {
				t.Errorf("%s is not exported", name)
			}
		}
	})
}

// Every reason for which ticks are not run has a series from the beginning, so that the first one
// is an increase.
func TestReasonsAreKnown(t *testing.T) {
	t.Parallel()
	m, err := singleworker.New(singleworker.Config{Servers: "zk1", ServerType: "idle"})
	if err != nil {
		t.Fatal(err)
	}
	families := gather(t, registered(t, prom.NewCollector(m)))
	known := make(map[string]bool)
	for _, name := range []string{"singleworker_ticks_skipped_total", "singleworker_ticks_missed_total"} {
		for _, metric := range families[name].GetMetric() {
			known[metric.GetLabel()[0].GetValue()] = true
		}
	}
	reasons := found(`Reason\w+ +Reason += "(\w+)"`, read(t, "../history/history.go"))
	if len(reasons) < 9 {
		t.Errorf("only %q found", reasons)
	}
	for _, reason := range reasons {
		if !known[reason] {
			t.Errorf("there is no series of %s", reason)
		}
	}
}

// METRICS.md is made of the tables.
func TestPage(t *testing.T) {
	t.Parallel()
	golden(t, "METRICS.md", prom.Page())
}

// golden compares a text with a file's.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || got != string(want) {
		t.Errorf("%s is not what the tables say (%v); run the test with -update", name, err)
	}
}

// Of more jobs than may have series, the same ones keep theirs, and the number of the others is
// exported.
func TestJobsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := running(t, "c", "d", "e")
		collector := prom.NewCollector(m)
		collector.MaxJobs = 2
		registry := registered(t, collector)
		time.Sleep(10 * time.Second)
		want := func(omitted float64, jobs ...string) {
			t.Helper()
			families := gather(t, registry)
			var named []string
			for _, metric := range families["singleworker_job_runs_total"].GetMetric() {
				named = append(named, metric.GetLabel()[0].GetValue())
			}
			n := families["singleworker_jobs_omitted"].GetMetric()[0].GetGauge().GetValue()
			if fmt.Sprint(named) != fmt.Sprint(jobs) || n != omitted {
				t.Errorf("series of %q, %v omitted; want %q, %v", named, n, jobs, omitted)
			}
		}
		want(1, "c", "d")
		if err := errors.Join(m.Handle("a", func(context.Context, *singleworker.Run) error { return nil }),
			m.Schedule(singleworker.Job{Name: "a", Schedule: "@daily"})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		want(2, "c", "d")
		if _, err := admin.On(m).Cancel(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		want(2, "c", "d") // its last counts may not have been scraped
		time.Sleep(time.Hour)
		want(1, "a", "c")
	})
}

// Before Run and after it, a scrape works.
func TestManagerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	m, err := singleworker.New(singleworker.Config{Servers: "zk1", ServerType: "idle", InstanceID: "app-1"})
	if err != nil {
		t.Fatal(err)
	}
	families := gather(t, registered(t, prom.NewCollector(m)))
	if n := families["singleworker_ready"].GetMetric()[0].GetGauge().GetValue(); n != 0 || families["singleworker_job_runs_total"] != nil {
		t.Errorf("ready: %v; %v", n, families["singleworker_job_runs_total"])
	}
}
