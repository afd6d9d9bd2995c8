package sim

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// onMulti asks decide about the transactions of an instance.
func (s *scene) onMulti(i *swtest.Instance, decide func(r *zkdev.Request) zkdev.Action) {
	s.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		if r.Client != i.Place() {
			return zkdev.Pass()
		}
		return decide(r)
	})
}

func has(r *zkdev.Request, op zkdev.Op, suffix string) bool {
	return slices.ContainsFunc(r.Ops, func(o zkdev.Request) bool { return o.Op == op && strings.HasSuffix(o.Path, suffix) })
}

// isClaim reports whether a transaction is a claim that opens a run: between two checks it writes a
// heartbeat. A breach may have changed the checks, and the heartbeat's path.
func isClaim(r *zkdev.Request) bool {
	for k := 2; k < len(r.Ops); k++ {
		beat := r.Ops[k-1]
		if r.Ops[k-2].Op == zkdev.OpCheck && beat.Op == zkdev.OpSetData && r.Ops[k].Op == zkdev.OpCheck &&
			!strings.HasSuffix(beat.Path, "/tick") && !strings.HasSuffix(beat.Path, "/history") {
			return has(r, zkdev.OpSetData, "/tick")
		}
	}
	return false
}

// silentOwner holds a's heartbeats and signs of life back until b tries to take the job; they then
// arrive before b's takeover does: it must be refused because of the heartbeat's version.
func silentOwner(s *scene, b *breach) {
	owner, taker := s.begin(&breach{}, b)
	var reached atomic.Bool
	delayed := make(chan struct{})
	s.onMulti(owner, func(r *zkdev.Request) zkdev.Action {
		if !reached.Load() && (has(r, zkdev.OpSetData, "/alive/a") || s.isSignOfLife(r)) {
			return zkdev.CutBefore()
		}
		return zkdev.Pass()
	})
	s.onMulti(taker, func(r *zkdev.Request) zkdev.Action {
		if has(r, zkdev.OpDelete, "/alive/a") && reached.CompareAndSwap(false, true) {
			close(delayed)
			return zkdev.Delay(session / 2)
		}
		return zkdev.Pass()
	})
	s.await(delayed)
	s.passOver(owner, session/2)
}

// isSignOfLife reports whether a transaction writes one.
func (s *scene) isSignOfLife(r *zkdev.Request) bool {
	return slices.ContainsFunc(r.Ops, func(o zkdev.Request) bool { return strings.HasPrefix(o.Path, s.Tree().Lives()+"/") })
}

// await waits for the event that a scene is about.
func (s *scene) await(happened <-chan struct{}) {
	select {
	case <-happened:
	case <-time.After(20 * session):
		s.t.Fatal("what this scene is about does not happen")
	}
}

// passOver keeps from the owner the effects of the other's request, which is delayed for d:
// otherwise its watch would tell it at the same virtual instant.
func (s *scene) passOver(owner *swtest.Instance, d time.Duration) {
	time.Sleep(d - time.Millisecond)
	owner.Partition()
	time.Sleep(session / 5)
	owner.Heal()
	time.Sleep(2 * session)
}

// lateClaim keeps a's claim in flight while someone deletes a's instance node, so that b owns
// the job when the claim arrives: it must be refused because of the owner record's version.
func lateClaim(s *scene, b *breach) {
	owner, _ := s.begin(b, &breach{})
	s.delayClaim(owner)
}

// lateClaimOfAQuietJob is the same, but b has not changed the job's tick record meanwhile.
func lateClaimOfAQuietJob(s *scene, b *breach) {
	owner, taker := s.begin(b, &breach{})
	var held sync.Once
	s.onMulti(taker, func(r *zkdev.Request) (action zkdev.Action) {
		if has(r, zkdev.OpSetData, "/tick") {
			held.Do(func() { action = zkdev.Delay(session * 3 / 4) })
		}
		return action
	})
	s.delayClaim(owner)
}

// delayClaim delays the next claim of a, the owner, until a no longer owns the job.
func (s *scene) delayClaim(owner *swtest.Instance) {
	claiming := make(chan struct{})
	var once sync.Once
	s.onMulti(owner, func(r *zkdev.Request) (action zkdev.Action) {
		if isClaim(r) {
			once.Do(func() {
				action = zkdev.Delay(session / 2)
				close(claiming)
			})
		}
		return action
	})
	s.await(claiming)
	s.forced = append(s.forced, forced{time.Now(), map[string]bool{"a": true}})
	if err := s.Delete(s.t.Context(), s.Tree().Instance("a")); err != nil {
		s.t.Error(err)
	}
	time.Sleep(2 * session)
}

// lostOwner takes a off the network.
func lostOwner(s *scene, b *breach) {
	owner, _ := s.begin(b, &breach{})
	owner.Partition()
	time.Sleep(5 * session)
}

// lateAdoption makes d's adoption of a free job arrive after a's: it must be refused
// because of the owner record's version.
func lateAdoption(s *scene, b *breach) {
	if err := s.Submit(s.t.Context(), singleworker.Job{Name: job, Schedule: s.schedule}); err != nil {
		s.t.Fatal(err)
	}
	delay := func(d time.Duration) func(r *zkdev.Request) zkdev.Action {
		var once sync.Once
		return func(r *zkdev.Request) (action zkdev.Action) {
			if has(r, zkdev.OpSetData, "/alive") {
				once.Do(func() { action = zkdev.Delay(d) })
			}
			return action
		}
	}
	owner := s.start("a", &breach{})
	s.onMulti(owner, delay(time.Second))
	time.Sleep(100 * time.Millisecond) // a finds itself alone; to d, the job is its own to take
	s.onMulti(s.start("d", b), delay(session/2))
	s.passOver(owner, session/2)
}

// lateLeave has a, which owns nothing, read from a server that is behind: it does not learn that
// somebody has deleted its node and that another process of its id has joined and owns the job.
// When it leaves, it must not delete the other's node, because b would take the job at once.
func lateLeave(s *scene, b *breach) {
	if err := s.Submit(s.t.Context(), singleworker.Job{Name: job, Schedule: s.schedule}); err != nil {
		s.t.Fatal(err)
	}
	first := s.Start("a", swtest.Setup{Dial: b.dial, Configure: func(cfg *singleworker.Config) { s.listen("a", &cfg.Hooks) }})
	time.Sleep(session)
	s.onMulti(first, func(r *zkdev.Request) zkdev.Action { // a client that writes reads nothing older from then on
		if s.isSignOfLife(r) {
			return zkdev.Refuse(zkdev.NoAuth)
		}
		return zkdev.Pass()
	})
	first.Client.Lag(100 * session)
	s.forced = append(s.forced, forced{time.Now(), map[string]bool{"a": true}})
	if err := s.Delete(s.t.Context(), s.Tree().Instance("a")); err != nil {
		s.t.Error(err)
	}
	second := s.start("a", &breach{})
	time.Sleep(session)
	s.start("b", &breach{})
	time.Sleep(2 * session)
	if owner := s.Owners()[job]; owner != "a" {
		s.t.Fatalf("%q owns the job, want the second process of a", owner)
	}
	second.Partition() // else it would learn of it, as b does, at its next sync
	first.Leave()
	s.start("c", &breach{}) // for b to look around at once
	time.Sleep(session / 5)
	second.Heal()
	time.Sleep(2 * session)
}

// deposed has somebody delete the node with which a leads: b leads, and a must not claim any more,
// although it owns the job until it has handed that over.
func deposed(s *scene, b *breach) {
	s.latch, s.brief = true, true
	s.begin(b, &breach{})
	var q queue
	for _, txn := range s.Server.Log() {
		q.apply(&txn, s.Tree().Leader())
	}
	if err := s.Delete(s.t.Context(), q.places[0].path); err != nil {
		s.t.Error(err)
	}
	time.Sleep(2 * session)
}

// blind makes operations on nodes of that name check no version.
func blind(op zkdev.Op, suffix string) func(zkdev.Op, string, int32) (string, int32) {
	return func(o zkdev.Op, path string, version int32) (string, int32) {
		if o == op && strings.HasSuffix(path, suffix) {
			return path, -1
		}
		return path, version
	}
}

// claim makes claims check no owner.
func claim(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpCheck || op == zkdev.OpSetData && strings.Contains(path, "/alive/") {
		return "/", -1
	}
	return path, version
}

// TestBreaches breaks the protocol in one place, on the way from an instance to the server, and
// shows that the checker notices: and that without the breach, in the same
// situation, there is nothing to notice.
func TestBreaches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		scene    func(*scene, *breach)
		schedule string
		breach   breach
		want     int // the property
	}{
		{"takeover without the heartbeat's version", silentOwner, "* * * * * ?", breach{check: blind(zkdev.OpDelete, "/alive/a")}, 1},
		{"adoption without the owner record's version", lateAdoption, "* * * * * ?", breach{check: blind(zkdev.OpSetData, "/alive")}, 1},
		{"a lease that outlives the session", lostOwner, "* * * * * ?", breach{granted: 4 * session}, 1},
		{"claim without a check of the owner", lateClaimOfAQuietJob, "0 * * * * ?", breach{check: claim}, 3},
		{"claim without any check", lateClaim, "*/2 * * * * ?", breach{
			check: func(op zkdev.Op, path string, version int32) (string, int32) {
				path, version = claim(op, path, version)
				return blind(zkdev.OpSetData, "/tick")(op, path, version)
			},
		}, 2},
		{"claim without the spec's version", lateClaimOfAShard, "*/5 * * * * ?", breach{check: unspecified}, 9},
		{"claim without the calendar's version", staleCalendar, "0 * * * * ?", breach{check: blind(zkdev.OpCheck, "/_calendars/break")}, 8},
		{"claim without the versions of the parents' specs", staleParent, "0 * * * * ?", breach{check: blind(zkdev.OpCheck, "/first")}, 8},
		{"claim without a check that the parent is the same job", parentOfBefore, "0 * * * * ?", breach{check: unproven}, 2},
		{"a request for a past tick that stays when it was run", pastTick, "0 * * * * ?", breach{keeps: "/requests/"}, 2},
		{"claim without the version of the freeze", frozenCrowd, "* * * * * ?", breach{check: unfrozen}, 2},
		{"changes of an instance's node without a version", lateLeave, "* * * * * ?", breach{check: node}, 1},
		{"claim without a check of the leader's node", deposed, "* * * * * ?", breach{check: leader}, 11},
		{"an alarm that is not raised", withoutHandler, "0 * * * * ?", breach{check: alarms}, 10},
		{"a relief without the tick record's version", claimDuringRelief, "31 * * * * ?", breach{
			check: func(op zkdev.Op, path string, version int32) (string, int32) { // a claim writes the heartbeat, too
				path, version = blind(zkdev.OpCheck, "/tick")(op, path, version)
				return blind(zkdev.OpDelete, "/alive/a")(op, path, version)
			},
		}, 1},
		{"claim after a relief without any check", claimAfterRelief, "31 * * * * ?", breach{
			check: func(op zkdev.Op, path string, version int32) (string, int32) {
				path, version = claim(op, path, version)
				return blind(zkdev.OpSetData, "/tick")(op, path, version)
			},
		}, 2},
		{"a claim ahead of the server's time", leapingClock, "* * * * * ?", breach{anyClock: true}, 14},
		{"answers that come too late to keep a run", leapInMidRun, "0 * * * * ?", breach{late: asksFor + 50*time.Millisecond}, 17},
		{"a layout that does not wait for runs to end", runsOfTwoLayouts, "*/5 * * * * ?", breach{hasty: true}, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, broken := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: tt.schedule, brief: tt.want == 2}
					b := &breach{}
					if broken {
						b = &tt.breach
					}
					tt.scene(s, b)
					found, _ := check(s.end())
					caught := slices.ContainsFunc(found, func(v violation) bool { return v.property == tt.want })
					if caught != broken || !broken && len(found) > 0 {
						t.Errorf("broken: %v; found %v, want (%d) to be that", broken, found, tt.want)
					}
				})
			}
		})
	}
}

// TestLeftSessionIsFound: a session that is not closed is counted, during the run and at its end.
func TestLeftSessionIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		guest, err := zkconn.Open(zkconn.Config{
			Servers: "zkdev:2181", SessionTimeout: w.Session, Dial: w.cluster.Server.Dial, Logger: slog.New(slog.DiscardHandler),
		}, func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		defer guest.Close()
		w.run()
		found := 0
		for _, v := range w.found {
			if v.property == 7 && strings.Contains(v.text, "sessions") {
				found++
			}
		}
		if found != 3 {
			t.Errorf("found %v, want the guest's session on the server, there again at the end, and in the log", w.found)
		}
	})
}
