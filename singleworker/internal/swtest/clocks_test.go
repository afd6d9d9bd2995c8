package swtest_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// machine has a wall clock that can be set.
type machine struct {
	off atomic.Int64

	mu   sync.Mutex
	told []string // what its hook was told
}

func (m *machine) set(off time.Duration) { m.off.Store(int64(off)) }

func (m *machine) wall() wall.Clock {
	return func() time.Duration { return time.Duration(m.off.Load()) }
}

func (m *machine) hook(c singleworker.Clock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, fmt.Sprintf("%v wrong: %v", c.Offset.Round(time.Second), c.Wrong))
}

func (m *machine) wantTold(t *testing.T, want ...string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := strings.Join(m.told, ", "); got != strings.Join(want, ", ") {
		t.Errorf("the hook was told %q, want %q", got, want)
	}
}

// machines starts instances that share jobs, each with a clock.
func machines(t *testing.T, c *swtest.Cluster, jobs int, schedule string, configure func(*singleworker.Config), offs ...time.Duration) []*machine {
	t.Helper()
	setup := sharing(t, c, jobs, schedule, working(10*time.Millisecond))
	var all []*machine
	for i, off := range offs {
		m := &machine{}
		m.set(off)
		s := setup
		s.Wall = m.wall()
		s.Configure = func(cfg *singleworker.Config) {
			cfg.Hooks.OnClock = m.hook
			if configure != nil {
				configure(cfg)
			}
		}
		c.Start(fmt.Sprintf("i%d", i), s)
		all = append(all, m)
	}
	time.Sleep(settled)
	return all
}

// stateOf is an instance's record.
func stateOf(t *testing.T, c *swtest.Cluster, name string) (record zkrec.Instance) {
	t.Helper()
	path := c.Tree().Instance(name)
	for _, txn := range c.Server.Log() {
		if txn.Path == path && txn.Code == zkdev.OK && len(txn.Data) > 0 {
			record, _ = zkrec.ParseInstance(txn.Data)
		}
	}
	return record
}

// aheadClaims counts the tick records that were written with a watermark that far ahead of the
// server's time.
func aheadClaims(t *testing.T, c *swtest.Cluster, limit time.Duration) (n int) {
	t.Helper()
	for _, txn := range c.Server.Log() {
		if txn.Op != zkdev.OpSetData || txn.Code != zkdev.OK || !strings.HasSuffix(txn.Path, "/tick") {
			continue
		}
		record, err := zkrec.ParseTick(txn.Data, txn.Time)
		if err != nil {
			t.Error(err)
		}
		if time.UnixMilli(record.Watermark).Sub(txn.Time) > limit {
			n++
		}
	}
	return n
}

// A clock that leaps does not silence the jobs of its instance: nothing is claimed ahead of
// ZooKeeper's time, the others run them, and the instance gets its share back when its clock is
// right again.
func TestWrongClockDoesNoHarm(t *testing.T) {
	t.Parallel()
	for leap, limit := range map[time.Duration]time.Duration{
		time.Hour: 30 * time.Second, -time.Hour: 30 * time.Second,
		5 * time.Second: 2 * time.Second, // while its leases last
	} {
		t.Run(leap.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				m := machines(t, c, 6, "* * * * * ?", func(cfg *singleworker.Config) { cfg.MaxClockOffset = limit }, 0, 0, 0)
				m[0].set(leap)
				at := time.Now()
				time.Sleep(settled)
				if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 3, "i2": 3}; !maps.Equal(got, want) {
					t.Errorf("shares %v, want %v", got, want)
				}
				if got := stateOf(t, c, "i0"); got.State != zkrec.InstanceWrongClock || (time.Duration(got.ClockOffset)-leap).Abs() > 200*time.Millisecond {
					t.Errorf("i0 is %s, its clock ahead by %v; want %s, and %v", got.State, time.Duration(got.ClockOffset), zkrec.InstanceWrongClock, leap)
				}
				if n := aheadClaims(t, c, limit); n > 0 {
					t.Errorf("%d claims are ahead of ZooKeeper's time", n)
				}
				gaps := make(map[string]time.Time)
				for _, r := range c.Runs() {
					if gap := r.Started.Sub(gaps[r.Job]); !gaps[r.Job].IsZero() && r.Started.After(at) && gap > 3*time.Second {
						t.Errorf("%s was not run for %v", r.Job, gap)
					}
					gaps[r.Job] = r.Started
				}
				m[0].set(0)
				time.Sleep(settled)
				if got, want := c.Shares(), map[string]int{"i0": 2, "i1": 2, "i2": 2}; !maps.Equal(got, want) {
					t.Errorf("shares %v when the clock is right again, want %v", got, want)
				}
				m[0].wantTold(t, leap.String()+" wrong: true", "0s wrong: false")
				m[1].wantTold(t)
				wantNoTickTwice(t, c)
				pass(t, c)
			})
		})
	}
}

// An instance that starts with a wrong clock takes nothing, and does not lead.
func TestStartWithAWrongClock(t *testing.T) {
	t.Parallel()
	for _, mode := range []singleworker.Mode{singleworker.LeaseMode, singleworker.LatchMode} {
		t.Run(string(mode), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				m := machines(t, c, 3, "* * * * * ?", func(cfg *singleworker.Config) { cfg.Mode = mode }, 10*time.Minute, 0)
				if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 3}; !maps.Equal(got, want) {
					t.Errorf("shares %v, want %v", got, want)
				}
				if n := aheadClaims(t, c, 30*time.Second); n > 0 {
					t.Errorf("%d claims are ahead of ZooKeeper's time", n)
				}
				m[0].wantTold(t, "10m0s wrong: true")
			})
		})
	}
}

// When all clocks differ from ZooKeeper's in the same way, it is ZooKeeper's that is wrong:
// everything runs, at the times of the instances. One of them whose clock then leaps is not
// followed.
func TestZooKeepersClockIsWrong(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		m := machines(t, c, 6, "* * * * * ?", nil, time.Hour, time.Hour+time.Second, time.Hour-time.Second)
		time.Sleep(settled)
		if got, want := c.Shares(), map[string]int{"i0": 2, "i1": 2, "i2": 2}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		before := len(c.Runs())
		time.Sleep(time.Minute)
		if n := len(c.Runs()) - before; n < 6*58 {
			t.Errorf("%d runs of 6 jobs in a minute", n)
		}
		m[0].set(2 * time.Hour)
		time.Sleep(settled)
		if n := aheadClaims(t, c, time.Hour+35*time.Second); n > 0 {
			t.Errorf("%d claims are ahead of the others' time", n)
		}
		if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 3, "i2": 3}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		wantNoTickTwice(t, c)
	})
}

// A single instance whose clock is wrong cannot tell which clock that is, and claims nothing.
// Without a limit it runs its jobs.
func TestSingleInstanceWithAWrongClock(t *testing.T) {
	t.Parallel()
	for what, limit := range map[string]time.Duration{"limit": 0, "no limit": singleworker.NoClockLimit} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				machines(t, c, 1, "* * * * * ?", func(cfg *singleworker.Config) { cfg.MaxClockOffset = limit }, time.Hour)
				if n := len(c.Runs()); (n > 0) != (limit == singleworker.NoClockLimit) {
					t.Errorf("%d runs", n)
				}
				jobs, err := c.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got := jobs[0].Reason.String(); strings.Contains(got, "the clock of i0 is wrong") != (limit == 0) {
					t.Errorf("listed as %q", got)
				}
			})
		})
	}
}

// An owner whose clock is somewhat behind runs its jobs as late as its clock is, and keeps them.
func TestOwnerWhoseClockIsBehindKeepsItsJobs(t *testing.T) {
	t.Parallel()
	for _, behind := range []time.Duration{300 * time.Millisecond, 2 * time.Second, 5 * time.Second} {
		t.Run(behind.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				machines(t, c, 9, "*/10 * * * * ?", nil, 0, -behind, 0)
				at := time.Now()
				time.Sleep(10 * time.Minute)
				if n := changesOfOwner(t, c, at); len(n) > 0 {
					t.Errorf("changes of owner in ten minutes: %v", n)
				}
				for _, txn := range c.Server.Log() {
					if txn.Op == zkdev.OpCreate && strings.Contains(txn.Path, "/tick/") && txn.Time.After(at) {
						t.Errorf("%v: %s was created to take the job", txn.Time, txn.Path)
					}
				}
				for _, r := range c.Runs() {
					if late := r.Started.Sub(r.Tick); r.Instance.Name == "i1" && r.Started.After(at) && late > behind+250*time.Millisecond {
						t.Errorf("%s began %v late", r.Job, late)
					}
				}
				if got, want := c.Shares(), map[string]int{"i0": 3, "i1": 3, "i2": 3}; !maps.Equal(got, want) {
					t.Errorf("shares %v, want %v", got, want)
				}
				wantNoTickTwice(t, c)
			})
		})
	}
}

// A clock that is set by more than the length of a lease ends no run of a healthy owner: ZooKeeper
// says at once that it is one. If ZooKeeper says nothing, the runs end: a machine that was
// suspended shows the same picture.
func TestClockThatIsSetEndsNoRuns(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		from, to time.Duration
		silent   bool // nothing comes from ZooKeeper
		runs     int  // of a job each second, in 90 s, at least
	}{
		"it leaps":            {0, 20 * time.Second, false, 65},
		"it is set right":     {-20 * time.Second, 0, false, 65},
		"it is wrong then":    {0, time.Hour, false, 55},
		"ZooKeeper is silent": {0, 20 * time.Second, true, 55},
	} {
		for n, phase := range []time.Duration{0, 333 * time.Millisecond, 1111 * time.Millisecond, 2400 * time.Millisecond, 0, 555 * time.Millisecond} {
			mode := singleworker.LeaseMode
			if n >= 4 {
				mode = singleworker.LatchMode
			}
			t.Run(fmt.Sprint(what, " ", phase, " ", mode), func(t *testing.T) {
				bubble(t, func(t *testing.T, c *swtest.Cluster) {
					t.Helper()
					m := &machine{}
					m.set(tt.from)
					var deposed atomic.Int64
					setup := swtest.Setup{Wall: m.wall(), Handlers: map[string]singleworker.Handler{
						"long": working(25 * time.Second), "short": working(time.Millisecond),
					}}
					setup.Configure = func(cfg *singleworker.Config) {
						cfg.Mode = mode
						cfg.Hooks.OnLeadershipLost = func(singleworker.Leadership, error) { deposed.Add(1) }
					}
					for name, schedule := range map[string]string{"long": "0 * * * * ?", "short": "* * * * * ?"} {
						if err := c.Submit(t.Context(), singleworker.Job{Name: name, Schedule: schedule}); err != nil {
							t.Fatal(err)
						}
					}
					i := c.Start("i0", setup)
					time.Sleep(65*time.Second - tt.from + phase) // in mid-run
					if tt.silent {
						i.Stall()
					}
					m.set(tt.to)
					at := time.Now()
					time.Sleep(time.Second)
					i.Resume()
					time.Sleep(24 * time.Second)
					var long []swtest.Run
					for _, r := range c.Runs() {
						if r.Job == "long" {
							long = append(long, r)
						}
					}
					switch first := long[0]; {
					case tt.silent && (!errors.Is(first.Cause, singleworker.ErrLeaseLost) || first.RightEnded.Sub(at) > time.Second):
						t.Errorf("its lease ends %v after the leap: %+v", first.RightEnded.Sub(at), first)
					case !tt.silent && (len(long) != 1 || first.Cause != nil || first.Ended.IsZero()):
						t.Errorf("the run of 25 s: %+v", long)
					}
					if n := len(c.Runs()); n < tt.runs {
						t.Errorf("%d runs in 90 s, want %d", n, tt.runs)
					}
					if well := !tt.silent && tt.to < time.Hour; well && deposed.Load() > 0 {
						t.Errorf("its leadership has ended %d times", deposed.Load())
					}
					wantNoTickTwice(t, c)
				})
			})
		}
	}
}
