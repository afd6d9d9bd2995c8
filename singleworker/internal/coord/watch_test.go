package coord

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// midnight is when the clock of a bubble begins.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// until waits until the given time after midnight plus a sync period.
func until(d time.Duration) {
	roomtest.Pass(time.Until(midnight.Add(d + roomtest.SyncPeriod + time.Second)))
}

// wantOverdue expects the ticks that were reported as overdue, each by one of the members.
func (g *group) wantOverdue(members []*instance, want ...time.Duration) {
	g.T.Helper()
	var got []time.Duration
	for _, m := range members {
		m.Lock()
		for _, tick := range m.Missed {
			got = append(got, tick.Sub(midnight))
		}
		m.Unlock()
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		g.T.Errorf("at %v overdue: %v, want %v", time.Since(midnight), got, want)
	}
}

func TestOverdueTickIsReportedOncePerOutage(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		members := []*instance{g.join("a"), g.join("b")}
		roomtest.Pass(10 * time.Second)
		until(110 * time.Second)
		g.wantOverdue(members)
		until(2 * time.Minute)
		g.wantOverdue(members, time.Minute)
		until(5 * time.Minute)
		g.wantOverdue(members, time.Minute) // still the same outage
		// An instance that joins finds that the alarm was raised.
		members = append(members, g.join("c"))
		until(5*time.Minute + 30*time.Second)
		g.wantOverdue(members, time.Minute)

		g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: midnight.Add(5 * time.Minute).UnixMilli()}.Encode())
		until(6*time.Minute + 50*time.Second)
		g.wantOverdue(members, time.Minute)
		until(8 * time.Minute)
		g.wantOverdue(members, time.Minute, 6*time.Minute)
		data, _, _ := g.Get(g.Tree.Alarm("job"))
		if alarm, err := zkrec.ParseAlarm(data); err != nil || alarm.Tick != midnight.Add(6*time.Minute).UnixMilli() {
			g.T.Errorf("alarm node %s (%v), want the tick of 00:06", data, err)
		}
	})
}

// A lost reply neither loses nor repeats the alarm.
func TestAlarmWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]zkdev.Action{
		"before it is applied": zkdev.CutBefore(),
		"after it is applied":  zkdev.CutAfter(),
	} {
		t.Run(what, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.Submit("job")
				members := []*instance{g.join("a")}
				roomtest.Pass(10 * time.Second)
				g.OnMulti("/alarm", action)
				until(130 * time.Second)
				g.wantOverdue(members, time.Minute)
				until(5 * time.Minute)
				g.wantOverdue(members, time.Minute)
			})
		})
	}
}

func TestUnreadableAlarmNode(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		members := []*instance{g.join("a"), g.join("b")}
		g.Create(g.Tree.Alarm("job"), "garbage")
		until(3 * time.Minute)
		g.wantOverdue(members, time.Minute)
	})
}

// If someone overwrote the record, ticks from then on are overdue.
func TestJobWithAnUnreadableRecordIsOverdue(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"garbage", "", `{"schema":1}`} {
		t.Run(broken, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.Submit("job")
				through := zkrec.Tick{Watermark: midnight.Add(3 * time.Minute).UnixMilli()}
				g.Set(g.Tree.Tick("job"), through.Encode())
				members := []*instance{g.join("a"), g.bystander("b")}
				until(3*time.Minute + 30*time.Second)
				g.Set(g.Tree.Tick("job"), []byte(broken))
				until(4*time.Minute + 50*time.Second)
				g.wantOverdue(members)
				until(6 * time.Minute)
				g.wantOverdue(members, 4*time.Minute)
			})
		})
	}
}

// A newer version's record may account for every tick; an instance that cannot read it logs that once.
func TestJobWithANewerOrDeniedRecordIsNotOverdue(t *testing.T) {
	t.Parallel()
	for what, refused := range map[string]bool{"of a newer version": false, "denied": true} {
		t.Run(what, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.Submit("job")
				g.Set(g.Tree.Tick("job"), []byte(`{"schema":99}`))
				g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
					if refused && r.Client == "a" && r.Path == g.Tree.Tick("job") {
						return zkdev.Refuse(zkdev.NoAuth)
					}
					return zkdev.Pass()
				})
				a := g.bystander("a")
				until(5 * time.Minute)
				g.wantOverdue([]*instance{a})
				if n := strings.Count(a.log.String(), "level=ERROR"); n != 1 {
					g.T.Errorf("%d errors, want one:\n%s", n, a.log)
				}
			})
		})
	}
}

func TestPausedJobIsNotOverdue(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		spec := zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: midnight.UnixMilli(), Paused: &zkrec.Pause{Since: midnight.UnixMilli()}}
		g.Set(g.Tree.Job("job"), spec.Encode())
		members := []*instance{g.join("a"), g.join("b")}
		until(10 * time.Minute)
		g.wantOverdue(members)
		spec.Paused.Until = time.Now().UnixMilli() // resumed, but nothing runs or accounts for its ticks
		g.Set(g.Tree.Job("job"), spec.Encode())
		roomtest.Pass(50 * time.Second)
		g.wantOverdue(members)
		roomtest.Pass(20 * time.Second)
		g.wantOverdue(members, time.Minute)
	})
}

// A job is not overdue during a long run, as long as its owner lives.
func TestRunningJobIsNotOverdue(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		o := a.Ownership()
		members := []*instance{a, g.join("b")}
		a.MustCommit(roomtest.Claim(o, o.Record, "r1", midnight.Add(time.Minute).UnixMilli()))
		until(10 * time.Minute)
		g.wantOverdue(members)
		a.client.Partition()
		roomtest.Pass(3 * roomtest.SessionTimeout)
		members[1].Ownership()
		roomtest.Pass(time.Minute + roomtest.SyncPeriod)
		g.wantOverdue(members[1:], 2*time.Minute)
	})
}

// The owner died during the run, and no live instance can run the job.
func TestRunWhoseOwnerIsGoneIsOverdue(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		b := g.bystander("b")
		o := a.Ownership()
		a.MustCommit(roomtest.Claim(o, o.Record, "r1", midnight.Add(time.Minute).UnixMilli()))
		a.client.Partition()
		until(4 * time.Minute)
		g.wantOverdue([]*instance{b}, 2*time.Minute)
	})
}

// A changed spec makes the instance check again, and forget what it has reported.
func TestAlarmIsNotRaisedAgainByAChange(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		members := []*instance{g.join("a")}
		until(2 * time.Minute)
		g.wantOverdue(members, time.Minute)
		data, _, _ := g.Get(g.Tree.Job("job"))
		g.Set(g.Tree.Job("job"), data)
		until(4 * time.Minute)
		g.wantOverdue(members, time.Minute)
	})
}

// A resubmitted job has its own alarms.
func TestAlarmOfAJobThatIsSubmittedAgain(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		members := []*instance{g.join("a"), g.join("b")}
		until(2 * time.Minute)
		g.wantOverdue(members, time.Minute)
		g.Multi(g.Cancel()...)
		roomtest.Pass(time.Minute)
		g.Submit("job")
		until(5*time.Minute + 30*time.Second)
		g.wantOverdue(members, time.Minute, 4*time.Minute)
	})
}
