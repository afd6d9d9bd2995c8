package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A group whose jobs require labels at random, or list instances, and are disabled here and there, while instances die,
// come back and are cut off. The test keeps its own account of who may run what.
type placing struct {
	t       *testing.T
	rng     *rand.Rand
	cluster *swtest.Cluster
	zones   map[string]string // by instance: as they are meant to be
	setup   swtest.Setup
	lies    map[string]string // by instance: the zone that it publishes instead; a breach
	deaf    string            // the instance that may not read who is excluded; a breach
	rules   map[string][]rule // by job
	barred  map[admin.Target][]inForce
}

// inForce is a time in which something held. A zero end is not over.
type inForce struct{ from, to time.Time }

// rule is what a job said for a while.
type rule struct {
	inForce

	zone      string
	instances []string
}

const (
	placesSession = 4 * time.Second
	placesSync    = time.Second
	// orderHeard is after how long an order must be followed; the instance may have been cut off until a moment ago.
	orderHeard = 3 * placesSync
	// specHeard is how long after a change of a job a run may begin that was claimed before.
	specHeard = 500 * time.Millisecond
)

func newPlacing(t *testing.T, seed uint64) *placing {
	t.Helper()
	p := &placing{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), zones: make(map[string]string), rules: make(map[string][]rule),
		barred: make(map[admin.Target][]inForce), lies: make(map[string]string), setup: swtest.Setup{Handlers: make(map[string]singleworker.Handler)},
	}
	p.cluster = swtest.New(t, swtest.Config{SessionTimeout: placesSession, SyncPeriod: placesSync})
	for k := range 6 {
		name := jobName(k)
		p.setup.Handlers[name] = func(ctx context.Context, _ *singleworker.Run) error {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
			return nil
		}
		if err := p.cluster.Submit(t.Context(), jobs.Job{Name: name, Schedule: "* * * * * ?"}); err != nil {
			t.Fatal(err)
		}
		p.rules[name] = []rule{{}}
	}
	for k := range 4 {
		p.zones[fmt.Sprintf("i%d", k)] = []string{"a", "b"}[k%2]
	}
	return p
}

func (p *placing) start(sid string) {
	setup := p.setup
	zone := p.zones[sid]
	if lie, lies := p.lies[sid]; lies {
		zone = lie
	}
	setup.Configure = func(cfg *singleworker.Config) { cfg.Labels = map[string]string{"zone": zone} }
	p.cluster.Start(sid, setup)
}

func (p *placing) operate(what string, f func(c *admin.Client) error) {
	if err := p.cluster.Operate(p.t.Context(), f); err != nil {
		p.t.Errorf("%s: %v", what, err)
	}
	p.cluster.Note(what)
}

// place changes where a job may run.
func (p *placing) place(name string) {
	next := rule{}
	switch p.rng.IntN(4) {
	case 0:
		next.zone = []string{"a", "b", "nowhere"}[p.rng.IntN(3)]
	case 1:
		next.instances = []string{"i0", fmt.Sprintf("i%d", 1+p.rng.IntN(3))}
	case 2:
		next.zone, next.instances = "a", []string{"i0", "i1"}
	}
	rules := p.rules[name]
	rules[len(rules)-1].to = time.Now()
	p.operate(fmt.Sprintf("%s requires %q %v", name, next.zone, next.instances), func(c *admin.Client) error {
		_, err := c.Edit(p.t.Context(), name, func(j *jobs.Job) error {
			if j.Require = nil; next.zone != "" {
				j.Require = map[string]string{"zone": next.zone}
			}
			j.Instances = next.instances
			return nil
		}, admin.EditOptions{})
		return err
	})
	next.from = time.Now()
	p.rules[name] = append(rules, next)
}

// exclude disables a job on an instance, or enables it again.
func (p *placing) exclude(target admin.Target) {
	times := p.barred[target]
	if n := len(times); n > 0 && times[n-1].to.IsZero() {
		times[n-1].to = time.Now()
		p.operate("enable "+target.String(), func(c *admin.Client) error { _, err := c.EnableAt(p.t.Context(), target); return err })
		return
	}
	p.operate("disable "+target.String(), func(c *admin.Client) error {
		_, err := c.DisableAt(p.t.Context(), target, admin.OrderOptions{By: "sim"})
		return err
	})
	p.barred[target] = append(times, inForce{from: time.Now()})
}

func (p *placing) step() {
	live := p.cluster.Live()
	name := jobName(p.rng.IntN(len(p.rules)))
	switch sid := fmt.Sprintf("i%d", p.rng.IntN(len(p.zones))); p.rng.IntN(8) {
	case 0, 1:
		p.place(name)
	case 2, 3, 4:
		p.exclude(admin.Target{InstanceID: sid, Job: name})
	case 5:
		if len(live) > 1 {
			live[p.rng.IntN(len(live))].Kill()
		}
	case 6:
		if !slices.ContainsFunc(live, func(i *swtest.Instance) bool { return i.Name == sid }) {
			p.start(sid)
		}
	case 7:
		if len(live) > 0 {
			victim := live[p.rng.IntN(len(live))]
			victim.Partition()
			time.Sleep(time.Duration(p.rng.Int64N(int64(2 * placesSession))))
			victim.Heal()
		}
	}
	time.Sleep(time.Duration(p.rng.Int64N(int64(3 * placesSession))))
}

// mayNot says what kept an instance from beginning a run of a job at that time, or "".
func (p *placing) mayNot(name, sid string, at time.Time) string {
	holds := func(s inForce, heard time.Duration) bool {
		return at.Sub(s.from) >= heard && (s.to.IsZero() || at.Before(s.to))
	}
	for _, s := range p.barred[admin.Target{InstanceID: sid, Job: name}] {
		if holds(s, orderHeard) {
			return "disabled since " + clock(s.from)
		}
	}
	for _, r := range p.rules[name] {
		zone := r.zone != "" && r.zone != p.zones[sid]
		list := r.instances != nil && !slices.Contains(r.instances, sid)
		if (zone || list) && holds(r.inForce, specHeard) {
			return fmt.Sprintf("since %s it requires %q %v", clock(r.from), r.zone, r.instances)
		}
	}
	return ""
}

// run returns what was wrong.
func (p *placing) run() (wrong []string) {
	for _, sid := range slices.Sorted(maps.Keys(p.zones)) {
		p.start(sid)
	}
	if p.deaf != "" {
		list := p.cluster.Tree().Exclusions()
		for _, op := range []zkdev.Op{zkdev.OpGetChildren, zkdev.OpGetChildren2} {
			p.cluster.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
				if r.Path == list && strings.HasPrefix(r.Client, p.deaf+"#") {
					return zkdev.Refuse(zkdev.NoAuth)
				}
				return zkdev.Pass()
			})
		}
	}
	time.Sleep(3 * placesSession)
	for range 25 {
		p.step()
	}
	time.Sleep(8 * placesSession)
	now := time.Now()
	owners := p.cluster.Owners()
	for name := range p.rules {
		var may []string
		for _, i := range p.cluster.Live() {
			if p.mayNot(name, i.Name, now) == "" {
				may = append(may, i.Name)
			}
		}
		if owner := owners[name]; !slices.Contains(may, owner) && (owner != "" || len(may) > 0) {
			wrong = append(wrong, fmt.Sprintf("%s is owned by %q in the end; %v may run it", name, owner, may))
		}
	}
	for _, r := range p.cluster.Runs() {
		if why := p.mayNot(r.Job, r.Instance.Name, r.Started); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s of %s began at %s at %s, although %s", r.Job, clock(r.Tick), r.Instance.Name, clock(r.Started), why))
		}
	}
	return wrong
}

// No run begins where it may not, and every job that somebody may run is owned by one that may.
func TestJobsRunOnlyWhereTheyMay(t *testing.T) {
	t.Parallel()
	eachSeed(t, 60, func(t *testing.T, seed uint64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			p := newPlacing(t, seed)
			wrong := p.run()
			if len(p.cluster.Runs()) < 100 {
				t.Errorf("%d runs", len(p.cluster.Runs()))
			}
			report(t, p.cluster, wrong)
		})
	})
}

// The check finds instances that do not follow orders, and those that publish a label that they do not have.
func TestJobsThatRunWhereTheyMayNotAreFound(t *testing.T) {
	t.Parallel()
	for what, breach := range map[string]func(*placing){
		"an instance that is deaf to orders": func(p *placing) { p.deaf = "i1" },
		"an instance with a false label":     func(p *placing) { p.lies["i1"] = "a" },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			seed, found := simkit.Search(20, func(seed uint64) (found bool) {
				synctest.Test(t, func(t *testing.T) {
					p := newPlacing(t, seed)
					breach(p)
					found = slices.ContainsFunc(p.run(), func(text string) bool { return strings.Contains(text, " began at i1 ") })
				})
				return found
			})
			if !found {
				t.Error("not found")
			}
			t.Logf("seed %d", seed)
		})
	}
}
