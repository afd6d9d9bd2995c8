package doctor

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/job"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// well is a group in which nothing is wrong.
func well() admin.Examination {
	server := func(address, mode string) admin.Server {
		return admin.Server{Address: address, State: admin.ServerServing, Mode: mode, Connections: 4, Latency: time.Millisecond, MaxLatency: 70 * time.Millisecond}
	}
	instance := func(id string) admin.Instance {
		off := time.Duration(0)
		return admin.Instance{
			ID: id, State: admin.InstanceActive, Version: "v0.3.0", Owned: 1, MaxSlots: 3, ClockOffset: &off,
			SessionTimeout: 10 * time.Second, SessionAsked: 10 * time.Second, Zones: "1f",
		}
	}
	return admin.Examination{
		Now: noon, NamesBytes: 20, Servers: []admin.Server{server("zk1:2181", "follower"), server("zk2:2181", "leader"), server("zk3:2181", "follower")},
		Group: admin.Group{
			Instances: []admin.Instance{instance("app-1"), instance("app-2"), instance("app-3")},
			Jobs:      []admin.JobStatus{jobOf("nightly", nil), jobOf("report", nil)},
		},
	}
}

// jobOf is a job that app-1 owns, after a change.
func jobOf(name string, change func(*admin.JobStatus)) admin.JobStatus {
	j := admin.JobStatus{Name: name, State: admin.StateOwned, Job: job.Job{Name: name}, Registered: []string{"app-1", "app-2"}, SpecBytes: 100}
	if change != nil {
		change(&j)
	}
	j.SetConditions(noon)
	return j
}

func ahead(e *admin.Examination, offs ...time.Duration) {
	for k := range offs {
		e.Instances[k].ClockOffset = &offs[k]
	}
}

// text is a check without the names in Of.
func text(c Check) string {
	line := fmt.Sprintf("%v %s: %s", c.Severity, c.Name, c.Sentence)
	if c.Remedy != "" {
		line += " => " + c.Remedy
	}
	return line
}

func TestWell(t *testing.T) {
	t.Parallel()
	var got []string
	checks := Checks(well())
	for _, c := range checks {
		got = append(got, text(c))
	}
	want := []string{
		"fine quorum: 3 of 3 servers serve requests, and zk2:2181 leads",
		"fine server: zk1:2181 serves requests (follower): 4 connections, latency 1ms on average and 70ms at most, 0 requests waiting",
		"fine server: zk2:2181 serves requests (leader): 4 connections, latency 1ms on average and 70ms at most, 0 requests waiting",
		"fine server: zk3:2181 serves requests (follower): 4 connections, latency 1ms on average and 70ms at most, 0 requests waiting",
		"fine zookeeper_clock: an instance's clock agrees with ZooKeeper's, or no two others agree against it",
		"fine own_clock: the clock of the machine that looks agrees with the group's time",
		"fine instances: 3 instances",
		"fine versions: all instances have the same library version",
		"fine zones: all instances have the same time zone database",
		"fine sessions: no session is shorter than its instance has asked for",
		"fine slots: the instances have room for 6 more jobs and shards",
		"fine registrations: no instance is registered for a job that does not run",
		"fine listing: the names of all jobs have 0.0 KiB of at most 7168.0 KiB",
		"fine records: the largest spec, of job nightly, has 0.1 KiB of at most 64.0 KiB",
		"fine acl: who has no credentials may not change the group, or none are used",
		"fine jobs: 2 of 2 jobs have nothing wrong",
	}
	if !slices.Equal(got, want) || IsWrong(checks) {
		t.Errorf("wrong: %v\n%s\nwant\n%s", IsWrong(checks), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// fault is a change of the group in which nothing is wrong, and the findings.
type fault struct {
	change func(*admin.Examination)
	want   []string
}

// wantFound has each fault found, and nothing else.
func wantFound(t *testing.T, faults map[string]fault) {
	t.Helper()
	for name, f := range faults {
		e := well()
		f.change(&e)
		var got []string
		checks := Checks(e)
		for _, c := range checks {
			if c.Severity > reason.Fine {
				got = append(got, text(c))
			}
		}
		if !slices.Equal(got, f.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(f.want, "\n"))
		}
		if wrong := slices.ContainsFunc(f.want, func(line string) bool { return !strings.HasPrefix(line, "notice") }); IsWrong(checks) != wrong {
			t.Errorf("%s: wrong is %v", name, !wrong)
		}
	}
}

func TestFaultsOfServersAndInstances(t *testing.T) {
	t.Parallel()
	wantFound(t, map[string]fault{
		"one of three servers is away": {
			func(e *admin.Examination) {
				e.Servers[2] = admin.Server{Address: "zk3:2181", State: admin.ServerAway, Err: syscall.ECONNREFUSED}
			},
			[]string{
				"warning quorum: 1 of 3 servers do not serve requests, and zk2:2181 leads => start the others before a further one goes: more than half of the ensemble must be up",
				"warning server: zk3:2181 accepts no connections: connection refused",
			},
		},
		"a server without a quorum has answered": {
			func(e *admin.Examination) {
				e.Stale = true
				e.Servers = []admin.Server{{Address: "zk1:2181", State: admin.ServerWaiting, Mode: "read-only"}}
			},
			[]string{
				"broken quorum: ZooKeeper has no quorum, and all else is as it was when that was lost => start the servers that are away, until more than half of the ensemble are up; those that are up may still be starting",
				"warning server: zk1:2181 is read-only, because it has lost its quorum",
			},
		},
		"no server says anything": {
			func(e *admin.Examination) { e.Servers = []admin.Server{{Address: "zk1:2181", State: admin.ServerMute}} },
			[]string{
				"notice quorum: ZooKeeper serves requests, and no server says how it stands => allow srvr in the servers' 4lw.commands.whitelist",
				"notice server: zk1:2181 accepts connections, and does not say how it stands",
			},
		},
		"a server is slow": {
			func(e *admin.Examination) { e.Servers[0].Latency = 200 * time.Millisecond },
			[]string{"warning server: zk1:2181 serves requests (follower): 4 connections, latency 200ms on average and 70ms at most, 0 requests waiting" +
				" => look at that machine's load, and at the disk of its dataLogDir"},
		},
		"ZooKeeper's clock is behind": {
			func(e *admin.Examination) { ahead(e, time.Minute, time.Minute+100*time.Millisecond, time.Minute) },
			[]string{"warning zookeeper_clock: ZooKeeper's clock is 1m behind those of the instances, which agree with each other: the instances go by theirs" +
				" => set the clock of the server that leads (zk2:2181)"},
		},
		"an instance's clock is ahead": {
			func(e *admin.Examination) { ahead(e, time.Minute, 0, 0) },
			[]string{"warning wrong_clock: app-1: its clock is 1m ahead of ZooKeeper's => swctl instances show app-1"},
		},
		"no instance": {
			func(e *admin.Examination) { e.Instances, e.Own, e.Jobs = nil, true, nil },
			[]string{
				"broken instances: no instance runs => start the application, or correct --server-type and --zk",
				"notice own_clock: no signs of life of instances tell the group's time; times are by the clock of the machine that looks => set it, unless no instance is meant to run",
			},
		},
		"two versions": {
			func(e *admin.Examination) { e.Instances[2].Version = "v0.4.0" },
			[]string{"notice versions: 2 library versions: v0.3.0 (app-1, app-2), v0.4.0 (app-3) => finish the deploy: until then new features wait for the oldest"},
		},
		"two time zone databases": {
			func(e *admin.Examination) { e.Instances[1].Zones = "07" },
			[]string{"warning zones: 2 time zone databases: 07 (app-2), 1f (app-1, app-3) => deploy the same image everywhere: schedules have different ticks"},
		},
		"short sessions": {
			func(e *admin.Examination) { e.Instances[0].SessionAsked = time.Minute },
			[]string{"notice sessions: ZooKeeper grants shorter sessions than were asked for: app-1 has 10s in place of 1m0s" +
				" => raise maxSessionTimeout in the servers' configuration, or ask for less"},
		},
		"full": {
			func(e *admin.Examination) {
				for k := range e.Instances {
					e.Instances[k].MaxSlots = 1
				}
			},
			[]string{"notice slots: each instance that takes jobs owns as many as its MaxSlots allows => start another instance, or raise MaxSlots"},
		},
		"old registrations": {
			func(e *admin.Examination) { e.Instances = e.Instances[:1] },
			[]string{"notice registrations: 1 instance are registered for 2 jobs and do not run; the others remove that ten session timeouts after an instance has gone: app-2" +
				" => nothing, if they went a moment ago; otherwise look at the log of an instance that runs"},
		},
		"many names, and a long spec": {
			func(e *admin.Examination) {
				e.NamesBytes, e.Jobs[1].SpecBytes = listing.Max*6/10, job.MaxBytes*95/100
			},
			[]string{
				"warning records: the largest spec, of job report, has 60.8 KiB of at most 64.0 KiB => swctl show report: shorten its arguments, or keep them elsewhere",
				"notice listing: the names of all jobs have 4300.8 KiB of at most 7168.0 KiB => another server type, or a chroot, for part of the jobs",
			},
		},
		"an open ACL": {
			func(e *admin.Examination) {
				e.Open = fmt.Errorf("look: %w", &zkconn.OpenACLError{Path: "/billing", Who: "world:anyone", Want: "auth::cdrwa"})
			},
			[]string{"warning acl: world:anyone may change /billing, although credentials are used" +
				" => look at its nodes, then in ZooKeeper's shell, as the application's user: setAcl -R /billing auth::cdrwa"},
		},
	})
}

func TestFaultsOfJobs(t *testing.T) {
	t.Parallel()
	orphan := func(handler string) func(*admin.JobStatus) {
		return func(j *admin.JobStatus) {
			j.State, j.Overdue, j.Reason = admin.StateUnowned, noon.Add(-time.Hour), reason.Reason{Code: reason.NoHandler, Handler: handler}
		}
	}
	fails := func(runs int) func(*admin.JobStatus) {
		return func(j *admin.JobStatus) { j.Failing = &admin.Failing{Runs: runs} }
	}
	wantFound(t, map[string]fault{
		"a job that nobody may run, and is late for that": {
			func(e *admin.Examination) { e.Jobs[0] = jobOf("nightly", orphan("nobody")) },
			[]string{`broken no_handler: nightly: no instance has registered handler "nobody" => swctl set nightly --handler HANDLER`},
		},
		"a conflict that is behind something worse, and a deploy": {
			func(e *admin.Examination) {
				declare := func(j *admin.JobStatus, mine, theirs string) {
					j.Declarations = []admin.Declaration{{InstanceID: "app-1", Program: mine, Fingerprint: "1"}, {InstanceID: "app-2", Program: theirs, Fingerprint: "2"}}
				}
				e.Jobs[0] = jobOf("nightly", func(j *admin.JobStatus) {
					orphan("nobody")(j)
					declare(j, "1.1.0", "")
					j.DeclaredBy = "app-2 (v0.3.0)"
				})
				e.Jobs[1] = jobOf("report", func(j *admin.JobStatus) { declare(j, "1.1.0", "1.2.0") })
			},
			[]string{
				`broken no_handler: nightly: no instance has registered handler "nobody" => swctl set nightly --handler HANDLER`,
				"warning conflict: nightly: app-1 (1.1.0) and app-2 (no version) declare it differently; it is as app-2 (v0.3.0) did => swctl instances",
			},
		},
		"equal causes, and others": {
			func(e *admin.Examination) {
				e.Jobs = nil
				for k := range 8 {
					e.Jobs = append(e.Jobs, jobOf(fmt.Sprintf("job-%d", k), orphan("nobody")))
				}
				e.Jobs = append(e.Jobs, jobOf("other", orphan("other")), jobOf("bad", fails(3)), jobOf("worse", fails(9)))
			},
			[]string{
				`broken no_handler: 8 jobs (job-0, job-1, job-2, job-3, job-4 and 3 more): no instance has registered handler "nobody" => swctl set NAME --handler HANDLER`,
				`broken no_handler: other: no instance has registered handler "other" => swctl set other --handler HANDLER`,
				"warning failing: 2 jobs (bad, worse): the handler returns errors, or its runs are lost => swctl history NAME --failed",
			},
		},
	})
}

// Without a session, the servers' answers are the verdict.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	checks := Unreachable(&admin.ServersError{Servers: []admin.Server{
		{Address: "zk1:2181", State: admin.ServerWaiting}, {Address: "zk2:2181", State: admin.ServerAway, Err: syscall.ECONNREFUSED},
	}})
	want := []string{
		"broken quorum: ZooKeeper has no quorum => start the servers that are away, until more than half of the ensemble are up; those that are up may still be starting",
		"warning server: zk1:2181 is up, and says that it serves no requests",
		"warning server: zk2:2181 accepts no connections: connection refused",
	}
	var got []string
	for _, c := range checks {
		got = append(got, text(c))
	}
	if !slices.Equal(got, want) || !IsWrong(checks) {
		t.Errorf("%q", got)
	}
}

func TestFaultsOfLimits(t *testing.T) {
	t.Parallel()
	held := []admin.HeldPlace{{Place: 0, Slot: "nightly"}, {Place: 1, Slot: "gone", Leaked: true}}
	wantFound(t, map[string]fault{
		"a place is held for a run that is gone": {
			func(e *admin.Examination) {
				e.Limits = []admin.Limit{{Name: "crm-api", Max: 2, Held: held}, {Name: "db", Max: 1}}
			},
			[]string{"warning limits: limit crm-api: 1 place of 2 held for runs that are gone: gone => swctl limits free crm-api"},
		},
		"all places are held by runs": {func(e *admin.Examination) { e.Limits = []admin.Limit{{Name: "crm-api", Max: 1, Held: held[:1]}} }, nil},
	})
}
