package keeper_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/keeper"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// start starts an instance with a keeper and a dead man's switch, which can run every job but those
// named.
func start(g *roomtest.Group, sid string, without ...string) *roomtest.Rooms {
	g.T.Helper()
	r := g.NewJournal(sid, without...)
	k := keeper.New(r.Loop.Loop, r.Catalog, r.Owner, r.Runner, "me")
	o := keeper.NewOverdue(r.Loop.Loop, r.Member, r.Catalog, r.Runner)
	r.Add(roomtest.Room{
		Joined: k.Joined,
		Sync: func() {
			if r.Joined() {
				r.Member.Clock.Sync()
				o.Sync()
				k.Sync()
			}
		},
		Changed: func(path string) {
			if slot, _ := r.Tree.Watched(path); path == r.Tree.Tick(slot) {
				k.TickChanged(slot)
			}
		},
		Handle: func(n session.Notice) {
			switch n := n.(type) {
			case catalog.Changed:
				if n.Spec || !r.Catalog.Current(n.Job) {
					o.Changed(n.Job)
				}
				k.Keep(n.Job)
			case owner.Gained:
				k.KeepSlot(n.Slot)
			case owner.Lost:
				k.KeepSlot(n.Slot)
			}
		},
	})
	r.Start()
	return r
}

// until waits until the given time after midnight plus a sync period.
func until(d time.Duration) {
	roomtest.Pass(time.Until(roomtest.Midnight.Add(d + roomtest.SyncPeriod + time.Second)))
}

// wantOverdue expects the ticks that were reported as overdue, each by one of the members.
func wantOverdue(g *roomtest.Group, members []*roomtest.Rooms, want ...time.Duration) {
	g.T.Helper()
	var got []time.Duration
	for _, m := range members {
		m.Lock()
		for _, tick := range m.Missed {
			got = append(got, tick.Sub(roomtest.Midnight))
		}
		m.Unlock()
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		g.T.Errorf("at %v overdue: %v, want %v", time.Since(roomtest.Midnight), got, want)
	}
}

func TestOverdueTickIsReportedOncePerOutage(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		members := []*roomtest.Rooms{start(g, "a"), start(g, "b")}
		roomtest.Pass(10 * time.Second)
		until(110 * time.Second)
		wantOverdue(g, members)
		until(2 * time.Minute)
		wantOverdue(g, members, time.Minute)
		until(5 * time.Minute)
		wantOverdue(g, members, time.Minute) // still the same outage
		// An instance that joins finds that the alarm was raised.
		members = append(members, start(g, "c"))
		until(5*time.Minute + 30*time.Second)
		wantOverdue(g, members, time.Minute)

		g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: roomtest.Midnight.Add(5 * time.Minute).UnixMilli()}.Encode())
		until(6*time.Minute + 50*time.Second)
		wantOverdue(g, members, time.Minute)
		until(8 * time.Minute)
		wantOverdue(g, members, time.Minute, 6*time.Minute)
		data, _, _ := g.Get(g.Tree.Alarm("job"))
		if alarm, err := zkrec.ParseAlarm(data); err != nil || alarm.Tick != roomtest.Midnight.Add(6*time.Minute).UnixMilli() {
			g.T.Errorf("alarm node %s (%v), want the tick of 00:06", data, err)
		}
	})
}

// Two instances watch a job, however many there are; when they die, others do.
func TestTwoInstancesWatchAJob(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		var members []*roomtest.Rooms
		for _, sid := range []string{"a", "b", "c", "d", "e"} {
			members = append(members, start(g, sid, "job"))
		}
		roomtest.Pass(2 * roomtest.SyncPeriod)
		watching := make(map[string]bool)
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Path == g.Tree.Tick("job") && r.Client != "editor" {
				watching[r.Client] = true
			}
			return zkdev.Pass()
		})
		until(3 * time.Minute)
		if len(watching) != 2 {
			g.T.Errorf("%v watch the job, want two", watching)
		}
		wantOverdue(g, members, time.Minute)
		for _, m := range members {
			if watching[m.Member.ID()] {
				m.Stop()
			}
		}
		clear(watching)
		g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: roomtest.Midnight.Add(3 * time.Minute).UnixMilli()}.Encode())
		roomtest.Pass(roomtest.SessionTimeout + 2*roomtest.SyncPeriod) // they look as soon as the others are gone
		if len(watching) != 2 {
			g.T.Errorf("then %v watch the job, want two", watching)
		}
		until(6 * time.Minute)
		wantOverdue(g, members, time.Minute, 4*time.Minute)
	})
}

// The servers lose what has accounted for a tick, which no instance can run again: it is overdue,
// although the watchers have seen that it was not. The owners have AlarmAfter first. An alarm that
// is lost is raised again.
func TestAccountOfATickIsLost(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "0 0 * * * ?"}, Since: time.Now().UnixMilli()})
		members := []*roomtest.Rooms{start(g, "a", "job"), start(g, "b", "job")}
		roomtest.Pass(10 * time.Second)
		snapshot := g.Server.Snapshot()
		until(time.Hour)
		g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: roomtest.Midnight.Add(time.Hour).UnixMilli()}.Encode())
		until(time.Hour + 10*time.Minute)
		wantOverdue(g, members)
		if err := g.Server.Restore(snapshot); err != nil {
			g.T.Fatal(err)
		}
		until(time.Hour + 10*time.Minute + 50*time.Second)
		wantOverdue(g, members)
		until(time.Hour + 12*time.Minute)
		wantOverdue(g, members, time.Hour)
		for _, m := range members {
			m.Client.Disconnect()
		}
		until(time.Hour + 14*time.Minute)
		wantOverdue(g, members, time.Hour) // the alarm is there
		if err := g.Server.Restore(snapshot); err != nil {
			g.T.Fatal(err)
		}
		until(time.Hour + 16*time.Minute)
		wantOverdue(g, members, time.Hour, time.Hour)
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
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				members := []*roomtest.Rooms{start(g, "a")}
				roomtest.Pass(10 * time.Second)
				g.OnMulti("/alarm", action)
				until(130 * time.Second)
				wantOverdue(g, members, time.Minute)
				until(5 * time.Minute)
				wantOverdue(g, members, time.Minute)
			})
		})
	}
}

// The judged records have changed when the alarm is written: the tick is accounted for, or excused.
func TestAlarmOfWhatHasChanged(t *testing.T) {
	t.Parallel()
	spec := zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: roomtest.Midnight.UnixMilli()}
	paused := spec
	paused.Switch.Paused = &zkrec.Pause{Since: 1}
	for what, change := range map[string]func(g *roomtest.Group){
		"the tick is claimed": func(g *roomtest.Group) {
			g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: roomtest.Midnight.Add(time.Hour).UnixMilli()}.Encode())
		},
		"the job is paused":      func(g *roomtest.Group) { g.Pause(*paused.Switch.Paused) },
		"the job is there again": func(g *roomtest.Group) { g.Multi(g.Cancel()...); g.SubmitSpec("job", paused) },
		"the job is there again, with the same versions": func(g *roomtest.Group) {
			g.Multi(g.Cancel()...)
			g.SubmitSpec("job", paused)
			g.Set(g.Tree.Tick("job"), nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.SubmitSpec("job", spec)
				g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: roomtest.Midnight.UnixMilli()}.Encode())
				raising := make(chan struct{})
				g.Server.Control(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
					if r.Path == g.Tree.Alarm("job") {
						close(raising)
						return zkdev.DelayReply(time.Second)
					}
					return zkdev.Pass()
				})
				a := start(g, "a", "job")
				<-raising
				change(g)
				roomtest.Pass(10 * time.Second)
				wantOverdue(g, []*roomtest.Rooms{a})
				if data, _, found := g.Get(g.Tree.Alarm("job")); found {
					g.T.Errorf("there is the alarm %s", data)
				}
			})
		})
	}
}

// An instance that looks again while it raises an alarm does not raise it twice.
func TestAlarmThatTakesLong(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		spec := zkrec.Spec{Job: jobs.Job{Schedule: "* * * * * ?", AlarmAfter: time.Second}, Since: time.Now().UnixMilli()}
		g.SubmitSpec("job", spec)
		const late = 2 * time.Second
		raising := make(chan struct{})
		g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Path == g.Tree.Alarm("job") }) {
				close(raising)
				return zkdev.DelayReply(late)
			}
			return zkdev.Pass()
		})
		a := start(g, "a")
		<-raising
		roomtest.Pass(spec.Job.AlarmAfter + 100*time.Millisecond)
		a.Do(a.Sync)
		roomtest.Pass(late)
		wantOverdue(g, []*roomtest.Rooms{a}, time.Second)
	})
}

func TestUnreadableAlarmNode(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		members := []*roomtest.Rooms{start(g, "a"), start(g, "b")}
		g.Create(g.Tree.Alarm("job"), "garbage")
		until(3 * time.Minute)
		wantOverdue(g, members, time.Minute)
	})
}

// If someone overwrote the record, ticks from then on are overdue.
func TestJobWithAnUnreadableRecordIsOverdue(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"garbage", "", `{"schema":1}`} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				through := zkrec.Tick{Watermark: roomtest.Midnight.Add(3 * time.Minute).UnixMilli()}
				g.Set(g.Tree.Tick("job"), through.Encode())
				members := []*roomtest.Rooms{start(g, "a"), start(g, "b", "job")}
				until(3*time.Minute + 30*time.Second)
				g.Set(g.Tree.Tick("job"), []byte(broken))
				until(4*time.Minute + 50*time.Second)
				wantOverdue(g, members)
				until(6 * time.Minute)
				wantOverdue(g, members, 4*time.Minute)
			})
		})
	}
}

// A newer version's record may account for every tick; an instance that cannot read it logs that
// once.
func TestJobWithANewerOrDeniedRecordIsNotOverdue(t *testing.T) {
	t.Parallel()
	for what, refused := range map[string]bool{"of a newer version": false, "denied": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				g.Set(g.Tree.Tick("job"), []byte(`{"schema":99}`))
				g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
					if refused && r.Client == "a" && r.Path == g.Tree.Tick("job") {
						return zkdev.Refuse(zkdev.NoAuth)
					}
					return zkdev.Pass()
				})
				a := start(g, "a", "job")
				until(5 * time.Minute)
				wantOverdue(g, []*roomtest.Rooms{a})
				if n := strings.Count(a.Log.String(), "level=ERROR"); n != 1 {
					g.T.Errorf("%d errors, want one:\n%s", n, a.Log)
				}
			})
		})
	}
}

// A spec that becomes one of a newer version while the job is owned ends the ownership, and nobody
// of this version takes the job, or writes over any of its records. As long as an instance lives
// that reads the spec, that watches the job. When none does, the others tell after a minute.
func TestSpecOfANewerVersion(t *testing.T) {
	t.Parallel()
	const future = 99
	for _, owned := range []bool{true, false} {
		t.Run(fmt.Sprintf("owned %v", owned), func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				newer := fmt.Appendf(nil, `{"schema":%d,"schedule":"0 * * * * ?","window":"09:00-17:00"}`, future)
				g.Submit("job")
				spec, _, _ := g.Get(g.Tree.Job("job"))
				if !owned {
					g.Set(g.Tree.Job("job"), newer)
				}
				node := g.Tree.Instance("newer")
				record := zkrec.Instance{Incarnation: "newer-1", State: zkrec.InstanceActive, Specs: future}
				g.Multi(zkconn.CreateEphemeralOp(node, record.Encode()))
				members := []*roomtest.Rooms{start(g, "a"), start(g, "b")}
				owner := func() zkrec.Owner {
					data, _, _ := g.Get(g.Tree.Alive("job"))
					o, err := zkrec.ParseOwner(data)
					if err != nil {
						g.T.Fatal(err)
					}
					return o
				}
				roomtest.Pass(roomtest.SyncPeriod)
				if o := owner(); (o.SID != "") != owned {
					g.T.Fatalf("at first the owner is %+v", o)
				}
				g.Set(g.Tree.Job("job"), newer)
				roomtest.Pass(2 * roomtest.SyncPeriod)
				before, _, _ := g.Get(g.Tree.Tick("job"))
				until(4 * time.Minute)
				if o := owner(); o.SID != "" || o.Relieved.SID != "" {
					g.T.Errorf("the owner is %+v, want nobody", o)
				}
				wantOverdue(g, members)
				written, _, _ := g.Get(g.Tree.Job("job"))
				if after, _, _ := g.Get(g.Tree.Tick("job")); !bytes.Equal(before, after) || !bytes.Equal(written, newer) {
					g.T.Errorf("the tick record became\n%s, the spec\n%s", after, written)
				}

				g.Remove(node)
				roomtest.Pass(50 * time.Second)
				wantOverdue(g, members) // another may come
				roomtest.Pass(20 * time.Second)
				alarm, _, _ := g.Get(g.Tree.Alarm("job"))
				if _, stat, ok := g.Get(g.Tree.Job("job")); !ok || !strings.Contains(string(alarm), fmt.Sprintf(`"tick":%d,`, stat.Mtime.UnixMilli())) {
					g.T.Errorf("the alarm is %s, want the time of the spec", alarm)
				}

				g.Set(g.Tree.Job("job"), spec)
				roomtest.Pass(2 * roomtest.SyncPeriod)
				if o := owner(); o.SID == "" {
					g.T.Error("nobody owns the job when its spec can be read again")
				}
			})
		})
	}
}

func TestPausedJobIsNotOverdue(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		pause := zkrec.Pause{Since: roomtest.Midnight.UnixMilli()}
		g.Set(g.Tree.Job("job"), zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: pause.Since}.Encode())
		g.Pause(pause)
		members := []*roomtest.Rooms{start(g, "a"), start(g, "b")}
		until(10 * time.Minute)
		wantOverdue(g, members)
		pause.Until = time.Now().UnixMilli() // resumed, but nothing runs or accounts for its ticks
		g.Pause(pause)
		roomtest.Pass(50 * time.Second)
		wantOverdue(g, members)
		roomtest.Pass(20 * time.Second)
		wantOverdue(g, members, time.Minute)
	})
}

// A job is not overdue during a long run, as long as its owner lives.
func TestRunningJobIsNotOverdue(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		members := []*roomtest.Rooms{a, start(g, "b")}
		a.MustCommit(roomtest.Claim(o, *o.Record, "r1", roomtest.Midnight.Add(time.Minute).UnixMilli()))
		until(10 * time.Minute)
		wantOverdue(g, members)
		a.Client.Partition()
		roomtest.Pass(3 * roomtest.SessionTimeout)
		members[1].Ownership()
		roomtest.Pass(time.Minute + roomtest.SyncPeriod)
		wantOverdue(g, members[1:], 2*time.Minute)
	})
}

// The owner died during the run, and no live instance can run the job.
func TestRunWhoseOwnerIsGoneIsOverdue(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		b := start(g, "b", "job")
		o := a.Ownership()
		a.MustCommit(roomtest.Claim(o, *o.Record, "r1", roomtest.Midnight.Add(time.Minute).UnixMilli()))
		a.Client.Partition()
		until(4 * time.Minute)
		wantOverdue(g, []*roomtest.Rooms{b}, 2*time.Minute)
	})
}

// The run's instance lives, but has lost the job since: its run excuses nothing.
func TestRunOfAFormerOwnershipIsOverdue(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		b := start(g, "b", "job")
		own := zkrec.Owner{SID: "x", Incarnation: "x-1"}
		g.Multi(
			zkconn.CreateEphemeralOp(g.Tree.Instance("x"), zkrec.Instance{Incarnation: "x-1"}.Encode()),
			zkconn.SetOp(g.Tree.Alive("job"), own.Encode(), zkconn.AnyVersion),
		)
		_, alive, _ := g.Get(g.Tree.Alive("job"))
		minute := roomtest.Midnight.Add(time.Minute).UnixMilli()
		run := zkrec.Run{Tick: minute, RunID: "r1", SID: "x", Token: alive.Mzxid, State: history.StateRunning}
		g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: minute, Run: run}.Encode())
		until(4 * time.Minute)
		wantOverdue(g, []*roomtest.Rooms{b})
		g.Set(g.Tree.Alive("job"), own.Encode()) // another ownership of x
		until(6 * time.Minute)
		wantOverdue(g, []*roomtest.Rooms{b}, 2*time.Minute)
	})
}

// A changed spec makes the instance check again, and forget its reports.
func TestAlarmIsNotRaisedAgainByAChange(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		members := []*roomtest.Rooms{start(g, "a")}
		until(2 * time.Minute)
		wantOverdue(g, members, time.Minute)
		data, _, _ := g.Get(g.Tree.Job("job"))
		g.Set(g.Tree.Job("job"), data)
		until(4 * time.Minute)
		wantOverdue(g, members, time.Minute)
	})
}

// Nor does it take its own alarm for one whose answer was lost, when the connection breaks
// meanwhile.
func TestAlarmIsNotRaisedAgainByAChangeAndALostReply(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		members := []*roomtest.Rooms{start(g, "a")}
		until(2 * time.Minute)
		wantOverdue(g, members, time.Minute)
		lost := false
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Path == g.Tree.Alarm("job") && !lost {
				lost = true
				return zkdev.CutAfter()
			}
			return zkdev.Pass()
		})
		data, _, _ := g.Get(g.Tree.Job("job"))
		g.Set(g.Tree.Job("job"), data)
		until(4 * time.Minute)
		if wantOverdue(g, members, time.Minute); !lost {
			g.T.Error("the alarm was not read")
		}
	})
}

// A resubmitted job has its own alarms.
func TestAlarmOfAJobThatIsSubmittedAgain(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		members := []*roomtest.Rooms{start(g, "a"), start(g, "b")}
		until(2 * time.Minute)
		wantOverdue(g, members, time.Minute)
		g.Multi(g.Cancel()...)
		roomtest.Pass(time.Minute)
		g.Submit("job")
		until(5*time.Minute + 30*time.Second)
		wantOverdue(g, members, time.Minute, 4*time.Minute)
	})
}

// A slot was made while ZooKeeper's clock was ahead, and its record says when its ticks begin: they
// begin then.
func TestSlotThatSaysWhenItBegins(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		begins := zkrec.Tick{Watermark: roomtest.Midnight.UnixMilli()}
		path := g.Tree.Tick("job")
		g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: 1}, path)
		g.Server.SetClock(time.Hour)
		g.Create(path, string(begins.Encode()))
		g.Server.SetClock(0)
		start(g, "a", "job")
		until(5 * time.Minute)
		if data, stat, _ := g.Get(path); stat.Version != 0 {
			g.T.Errorf("the record has become %s", data)
		}
	})
}
