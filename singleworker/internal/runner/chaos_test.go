package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// Owners come and go, commits fail, are late, or are applied but reported as failed,
// handlers fail, panic and overrun, specs change, jobs are paused: at the end every
// tick is accounted for exactly once. The keeper checks that.
func TestChaos(t *testing.T) {
	t.Parallel()
	simkit.Search(simkit.Seeds(100), func(seed uint64) bool {
		synctest.Test(t, func(t *testing.T) {
			c := &chaos{
				r: rand.New(&source{pcg: rand.NewPCG(seed, 1)}), k: newKeeper(t), t: t,
				spec: ticks.Job{Schedule: parse(t, "0/5 * * * * ?", time.UTC), Since: midnight, Paused: &zkrec.Pause{}},
			}
			c.k.pull = func(ticks.Commit) lever { return c.pull() }
			c.run()
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		return t.Failed()
	})
}

// chaos is one random scenario.
type chaos struct {
	t    *testing.T
	r    *rand.Rand
	k    *keeper
	calm atomic.Bool // no more faults
	spec ticks.Job
}

// source is a random source that is safe for concurrent use.
type source struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

func (c *chaos) upTo(d time.Duration) time.Duration { return time.Duration(c.r.Int64N(int64(d))) }

func oneOf[T any](c *chaos, of ...T) T { return of[c.r.IntN(len(of))] }

func (c *chaos) run() {
	members := []*world{c.k.world("a", 100), c.k.world("b", 200)}
	for _, w := range members {
		w.run(c.t.Context())
	}
	for n := range 12 {
		if c.r.IntN(3) == 0 {
			c.reschedule()
		}
		if c.r.IntN(3) == 0 {
			c.pause()
		}
		w := members[c.r.IntN(2)]
		c.own(w)
		pass(c.upTo(40 * time.Second))
		for i := range c.r.IntN(3) {
			c.k.change("job", func(j *kept) { j.requests = append(j.requests, "q"+strconv.Itoa(3*n+i)) })
			w.runner.Requested("job", c.pending())
		}
		pass(c.upTo(20 * time.Second))
		if c.r.IntN(4) == 0 {
			w.leases.Lapse()
			pass(c.upTo(10 * time.Second))
			w.leases.Renew("job", 1<<62)
			pass(c.upTo(20 * time.Second))
		}
		w.lose()
		pass(c.upTo(20 * time.Second))
	}
	pass(30 * time.Second)
	c.calm.Store(true)
	if c.spec.Paused.Until == 0 {
		c.spec.Paused = &zkrec.Pause{Since: c.spec.Paused.Since, Until: time.Now().UnixMilli(), Missed: c.spec.Paused.Missed}
	}
	c.own(members[0])
	pass(2 * time.Minute)
	for _, w := range members {
		w.stop()
	}
	j := c.k.read("job")
	if late := time.Since(time.UnixMilli(j.record.Watermark)); late > time.Minute {
		c.t.Errorf("the watermark is %v old", late)
	}
	if len(j.requests) != 0 {
		c.t.Errorf("requests %q are still pending", j.requests)
	}
	if j.record.Open() {
		c.t.Errorf("a run without a result: %+v", j.record)
	}
}

func (c *chaos) pull() (l lever) {
	if c.calm.Load() {
		return lever{}
	}
	switch c.r.IntN(12) {
	case 0:
		l.refuse = errNotOwner
	case 1:
		l.conflict = true
	case 2:
		l.delay = c.upTo(5 * time.Second)
	case 3:
		l.reply = c.upTo(5 * time.Second)
	case 4:
		l.after = errors.New("no longer part of the group")
	}
	return l
}

func (c *chaos) handle(ctx context.Context, _ Run) error {
	if c.calm.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
		if c.r.IntN(2) == 0 {
			time.Sleep(c.upTo(10 * time.Second)) // return late
		}
		return context.Cause(ctx)
	case <-time.After(c.upTo(8 * time.Second)):
	}
	switch c.r.IntN(6) {
	case 0:
		return errors.New("boom")
	case 1:
		panic("glass")
	}
	return nil
}

// reschedule replaces the schedule, unless a former one is still unaccounted for.
func (c *chaos) reschedule() {
	if c.k.read("job").record.Watermark <= c.spec.Since.UnixMilli() {
		return
	}
	c.spec = ticks.Job{
		Schedule: parse(c.t, oneOf(c, "0/5 * * * * ?", "0/7 * * * * ?", "3/10 * * * * ?"), time.UTC),
		Since:    time.Now().Truncate(time.Millisecond), // as specifications have it
		Former:   []ticks.Former{{Schedule: c.spec.Schedule, Since: c.spec.Since}}, Paused: c.spec.Paused,
	}
}

// pause pauses or resumes the job; only the last pause is known.
func (c *chaos) pause() {
	p, now := *c.spec.Paused, time.Now()
	switch {
	case p.Since != 0 && (p.Until == 0 || p.Until > now.UnixMilli()):
		p.Until = now.UnixMilli()
	case c.k.read("job").record.Watermark >= p.Until:
		p = zkrec.Pause{Since: now.UnixMilli(), Missed: oneOf(c, "", jobs.MisfireOnce, jobs.MisfireAll)}
		if c.r.IntN(2) == 0 {
			p.Until = now.Add(c.upTo(40 * time.Second)).UnixMilli()
		}
	}
	c.spec.Paused = &p
}

func (c *chaos) pending() (list []ticks.Request) {
	for _, id := range c.k.read("job").requests {
		list = append(list, manual(id))
	}
	return list
}

// own makes w adopt the job, with a different policy each time.
func (c *chaos) own(w *world) {
	j := w.job("job", "@yearly", c.handle)
	of := c.spec
	j.Job, j.Requests = &of, c.pending()
	of.Policy = &ticks.Policy{
		Misfire:     oneOf(c, jobs.MisfireOnce, jobs.MisfireSkip, jobs.MisfireAll),
		Interrupted: oneOf(c, jobs.InterruptedRerun, jobs.InterruptedSkip),
		Overlap:     oneOf(c, jobs.OverlapSkip, jobs.OverlapQueue),
		Retries:     c.r.IntN(3), Timeout: time.Duration(c.r.IntN(2) * int(4*time.Second)),
	}
	w.own(j)
}
