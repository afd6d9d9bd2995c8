package admin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// state publishes the state of app-1.
func (w *world) state(state string) {
	w.Helper()
	w.put(w.c.tree.Instance("app-1"), zkrec.Instance{Incarnation: "app-1-1", State: state}.Encode())
}

// wantOrders expects the orders: "app-1 for all", or for one incarnation.
func (w *world) wantOrders(want ...string) {
	w.Helper()
	orders, err := w.c.Orders(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, o := range orders {
		got = append(got, strings.TrimSpace(o.InstanceID+" for "+o.Incarnation+" by "+o.By+" "+o.Reason))
	}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		w.Errorf("orders %q, want %q", got, want)
	}
}

func TestDrainDisableAndEnable(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.state(InstanceActive)
		alice, bob := OrderOptions{By: "alice", Reason: "disk"}, OrderOptions{By: "bob"}
		do := func(what string, f func(context.Context, string, OrderOptions) (OrderResult, error), opts OrderOptions, want Outcome, incarnation string) {
			w.Helper()
			result, err := f(w.Context(), "app-1", opts)
			if err != nil || result.Outcome != want || result.Order == nil || result.Order.Incarnation != incarnation ||
				result.Instance == nil || result.Instance.State != InstanceDraining || *result.Instance.Order != *result.Order {
				w.Errorf("%s: %+v, %v; want %s for %q", what, result, err, want, incarnation)
			}
			time.Sleep(time.Second)
		}
		do("drain", w.c.Drain, alice, OutcomeOrdered, "app-1-1")
		w.wantOrders("app-1 for app-1-1 by alice disk")
		do("drain again", w.c.Drain, alice, OutcomeUnchanged, "app-1-1")
		do("drain by another", w.c.Drain, bob, OutcomeOrdered, "app-1-1")
		do("disable", w.c.Disable, bob, OutcomeOrdered, "")
		do("disable again", w.c.Disable, bob, OutcomeUnchanged, "")
		do("drain a disabled one", w.c.Drain, alice, OutcomeUnchanged, "")
		do("disable for another reason", w.c.Disable, alice, OutcomeOrdered, "")
		w.wantOrders("app-1 for  by alice disk")
		enabled, err := w.c.Enable(w.Context(), "app-1")
		if err != nil || enabled.Outcome != OutcomeEnabled || enabled.Order == nil || enabled.Order.By != "alice" || enabled.Instance.State != InstanceActive {
			w.Errorf("enable: %+v, %v", enabled, err)
		}
		again, err := w.c.Enable(w.Context(), "app-1")
		if err != nil || again.Outcome != OutcomeUnchanged || again.Order != nil || again.Instance == nil {
			w.Errorf("enable again: %+v, %v", again, err)
		}
		w.wantOrders()
	})
}

func TestOrdersForInstancesThatAreNotRunning(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		if _, err := w.c.Drain(w.Context(), "app-9", OrderOptions{}); !errors.Is(err, ErrNoInstance) {
			w.Errorf("drain: %v, want ErrNoInstance", err)
		}
		w.wantOrders()
		result, err := w.c.Disable(w.Context(), "app-9", OrderOptions{By: "alice"})
		if err != nil || result.Outcome != OutcomeOrdered || result.Instance != nil {
			w.Errorf("disable: %+v, %v", result, err)
		}
		w.wantOrders("app-9 for  by alice")
		if result, err = w.c.Enable(w.Context(), "app-9"); err != nil || result.Outcome != OutcomeEnabled || result.Instance != nil {
			w.Errorf("enable: %+v, %v", result, err)
		}
		for field, f := range map[string]func() error{
			"InstanceID": func() error { _, err := w.c.Disable(w.Context(), "a/b", OrderOptions{}); return err },
			"Reason": func() error {
				_, err := w.c.Drain(w.Context(), "a", OrderOptions{Reason: strings.Repeat("x", 2000)})
				return err
			},
		} {
			var refused *invalid.FieldError
			if err := f(); !errors.As(err, &refused) || refused.Field != field {
				w.Errorf("%v, want an *invalid.FieldError for %s", err, field)
			}
		}
	})
}

// An order for an earlier incarnation does not apply to this one.
func TestDrainOfANewStart(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.state(InstanceActive)
		if _, err := w.c.Drain(w.Context(), "app-1", OrderOptions{}); err != nil {
			w.Fatal(err)
		}
		w.put(w.c.tree.Instance("app-1"), zkrec.Instance{Incarnation: "app-1-2", State: InstanceActive}.Encode())
		instances, err := w.c.Instances(w.Context())
		if err != nil || len(instances) != 1 || instances[0].State != InstanceActive || instances[0].Order != nil {
			w.Errorf("instances %+v, %v; want an active one", instances, err)
		}
		result, err := w.c.Drain(w.Context(), "app-1", OrderOptions{})
		if err != nil || result.Outcome != OutcomeOrdered || result.Order.Incarnation != "app-1-2" {
			w.Errorf("drain: %+v, %v", result, err)
		}
	})
}

func TestOrderWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		for what, f := range map[Outcome]func() (OrderResult, error){
			OutcomeOrdered: func() (OrderResult, error) { return w.c.Disable(w.Context(), "app-1", OrderOptions{}) },
			OutcomeEnabled: func() (OrderResult, error) { return w.c.Enable(w.Context(), "app-1") },
		} {
			if what == OutcomeEnabled {
				if _, err := w.hand.Disable(w.Context(), "app-1", OrderOptions{}); err != nil {
					w.Fatal(err)
				}
			} else if _, err := w.hand.Enable(w.Context(), "app-1"); err != nil {
				w.Fatal(err)
			}
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
			if result, err := f(); err != nil || result.Outcome != what || result.Order == nil {
				w.Errorf("%+v, %v; want %s", result, err, what)
			}
		}
	})
}

func TestAwaitDrained(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.state(InstanceActive)
		if _, _, err := w.c.AwaitDrained(w.Context(), "app-1"); !errors.Is(err, ErrNotDraining) {
			w.Errorf("an active one: %v, want ErrNotDraining", err)
		}
		if _, err := w.c.Drain(w.Context(), "app-1", OrderOptions{}); err != nil {
			w.Fatal(err)
		}
		short, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		instance, runs, err := w.c.AwaitDrained(short, "app-1")
		if !errors.Is(err, context.DeadlineExceeded) || !runs || instance.Owned != 1 {
			w.Errorf("too short: %+v, %v, %v", instance, runs, err)
		}
		time.AfterFunc(time.Minute, func() { w.put(w.c.tree.Alive("job"), nil) })
		time.AfterFunc(2*time.Minute, func() { w.state(InstanceDrained) })
		begun := time.Now()
		instance, runs, err = w.c.AwaitDrained(w.Context(), "app-1")
		if took := time.Since(begun); err != nil || !runs || instance.Owned != 0 || took < 2*time.Minute || took > 121*time.Second {
			w.Errorf("%+v, %v, %v after %v", instance, runs, err, took)
		}
		w.kill()
		if _, runs, err := w.c.AwaitDrained(w.Context(), "app-1"); err != nil || runs {
			w.Errorf("one that is gone: runs %v, %v", runs, err)
		}
	})
}

// The time in an instance's heartbeats shows the offset of its clock from ZooKeeper's.
func TestClockOffset(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		beat string
		want *time.Duration
	}{
		"ahead":                         {string(zkrec.EncodeBeat(noon.Add(3 * time.Hour))), ptr(3 * time.Hour)},
		"behind":                        {string(zkrec.EncodeBeat(noon.Add(-2 * time.Second))), ptr(-2 * time.Second)},
		"written manually":              {"now", nil},
		"beyond any time that there is": {"99999999999999999999", nil},
		"no sign of life":               {"", nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.owned(job.Job{Name: "job", Schedule: "@hourly"})
				w.instance("app-2", "job") // which gives no sign of life
				if tt.beat != "" {
					w.multi(zkcreate(w.c.tree.Life("app-1-1"), []byte(tt.beat)))
				}
				instances, err := w.c.Instances(w.Context())
				if err != nil || len(instances) != 2 {
					w.Fatal(instances, err)
				}
				got := instances[0].ClockOffset
				if (got == nil) != (tt.want == nil) || got != nil && (*got-*tt.want).Abs() > time.Second || instances[1].ClockOffset != nil {
					w.Errorf("offsets %v and %v, want %v and none", got, instances[1].ClockOffset, tt.want)
				}
			})
		})
	}
}

// An instance that says itself how wrong its clock is is believed, also one that owns nothing.
func TestPublishedClockOffset(t *testing.T) {
	t.Parallel()
	got := instanceOf("app-1", zkrec.Instance{
		State: zkrec.InstanceWrongClock, ClockOffset: zkrec.Duration(-time.Hour), ClockBound: zkrec.Duration(time.Millisecond),
	}, zkrec.Order{}, false)
	if got.ClockOffset == nil || *got.ClockOffset != -time.Hour || got.ClockBound != time.Millisecond || !got.closed() {
		t.Errorf("%+v, closed: %v", got, got.closed())
	}
	text, err := json.Marshal(got)
	for _, want := range []string{`"state":"wrong_clock"`, `"clock_offset_seconds":-3600`, `"clock_bound_seconds":0.001`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s, %v; want %s", text, err, want)
		}
	}
}

// A client that asks for the instances of a large group reads the owner records of its jobs, and no
// other.
func TestInstancesReadOwnersOnly(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.submit(job.Job{Name: "free", Schedule: "@hourly"})
		w.submit(job.Job{Name: "parts", Schedule: "@hourly", Shards: 2})
		w.multi(zkcreate(w.c.tree.Slot("parts[1]"), nil), zkcreate(w.c.tree.Alive("parts[1]"), nil))
		w.adopt("app-1", "parts[1]")
		var mu sync.Mutex
		var read []string
		w.server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			mu.Lock()
			defer mu.Unlock()
			read = append(read, r.Path)
			return zkdev.Pass()
		})
		instances, err := w.c.Instances(w.Context())
		if err != nil || len(instances) != 1 || instances[0].Owned != 2 {
			t.Errorf("instances %+v, %v; want one that owns two slots", instances, err)
		}
		slices.Sort(read)
		tree := w.c.tree
		want := []string{tree.Instance("app-1"), tree.Alive("free"), tree.Alive("job"), tree.Alive("parts"), tree.Alive("parts[1]")}
		read = slices.DeleteFunc(read, func(path string) bool { return path == tree.Life("app-1-1") }) // for the clock
		if !slices.Equal(read, want) {
			t.Errorf("read %q, want %q", read, want)
		}
	})
}
