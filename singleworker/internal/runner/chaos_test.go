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

	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Owners come and go, commits fail, are late, or are applied although they are said to have failed,
// handlers fail, panic and outlast everything, specifications change: at the end every tick is
// accounted for, once. The checks are those of the keeper.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { chaos(t, rand.New(&source{pcg: rand.NewPCG(seed, 1)})) })
	}
}

// source is one that many goroutines may ask.
type source struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

func chaos(t *testing.T, r *rand.Rand) {
	t.Helper()
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	k := newKeeper(t)
	var calm atomic.Bool
	k.pull = func(c Commit) lever {
		if calm.Load() {
			return lever{}
		}
		l := lever{}
		switch r.IntN(12) {
		case 0:
			l.refuse = errNotOwner
		case 1:
			l.conflict = true
		case 2:
			l.delay = upTo(5 * time.Second)
		case 3:
			l.reply = upTo(5 * time.Second)
		case 4:
			l.after = errors.New("no longer part of the group")
		}
		return l
	}
	policy := func() zkrec.Policy {
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		return zkrec.Policy{
			Misfire:     pick(zkrec.MisfireOnce, zkrec.MisfireSkip, zkrec.MisfireAll),
			Interrupted: pick(zkrec.InterruptedRerun, zkrec.InterruptedSkip),
			Overlap:     pick(zkrec.OverlapSkip, zkrec.OverlapQueue),
			Retries:     r.IntN(3), Timeout: zkrec.Duration(r.IntN(2) * int(4*time.Second)),
		}
	}
	handle := func(ctx context.Context, _ Run) error {
		if calm.Load() {
			return nil
		}
		select {
		case <-ctx.Done():
			if r.IntN(2) == 0 {
				time.Sleep(upTo(10 * time.Second)) // it is in no hurry
			}
			return context.Cause(ctx)
		case <-time.After(upTo(8 * time.Second)):
		}
		switch r.IntN(6) {
		case 0:
			return errors.New("boom")
		case 1:
			panic("glass")
		}
		return nil
	}
	members := []*world{k.world("a", 100), k.world("b", 200)}
	for _, w := range members {
		w.run(t.Context())
	}
	spec := ledger.Job{Schedule: parse(t, "0/5 * * * * ?", time.UTC), Since: midnight}
	reschedule := func() { // its former schedule is known as long as no third one follows
		if k.read("job").record.Through > spec.Since.UnixMilli() {
			text := []string{"0/5 * * * * ?", "0/7 * * * * ?", "3/10 * * * * ?"}[r.IntN(3)]
			now := time.Now().Truncate(time.Millisecond) // as specifications have it
			spec = ledger.Job{
				Schedule: parse(t, text, time.UTC), Since: now, Former: spec.Schedule, FormerSince: spec.Since, Paused: spec.Paused,
			}
		}
	}
	pause := func() { // or resume
		p, now := &spec.Paused, time.Now()
		switch {
		case p.Since != 0 && (p.Until == 0 || p.Until > now.UnixMilli()):
			p.Until = now.UnixMilli()
		case k.read("job").record.Through >= p.Until: // only the last pause is known
			*p = zkrec.Pause{Since: now.UnixMilli(), Missed: []string{"", zkrec.MisfireOnce, zkrec.MisfireAll}[r.IntN(3)]}
			if r.IntN(2) == 0 {
				p.Until = now.Add(upTo(40 * time.Second)).UnixMilli()
			}
		}
	}
	pending := func() (list []Request) {
		for _, id := range k.read("job").requests {
			list = append(list, manual(id))
		}
		return list
	}
	own := func(w *world) {
		j := withPolicy(w.job("job", "@yearly", handle), policy())
		p := j.Policy
		j.Job = spec
		j.Policy = p
		j.Requests = pending()
		w.own(j)
	}
	for n := range 12 {
		w := members[r.IntN(2)]
		if r.IntN(3) == 0 {
			reschedule()
		}
		if r.IntN(3) == 0 {
			pause()
		}
		own(w)
		pass(upTo(40 * time.Second))
		for i := range r.IntN(3) {
			k.change("job", func(j *kept) { j.requests = append(j.requests, "q"+strconv.Itoa(3*n+i)) })
			w.runner.Requested("job", pending())
		}
		pass(upTo(20 * time.Second))
		if r.IntN(4) == 0 {
			w.book.Lapse()
			pass(upTo(10 * time.Second))
			w.book.Renew("job", 1<<62)
			pass(upTo(20 * time.Second))
		}
		w.lose()
		pass(upTo(20 * time.Second))
	}
	pass(30 * time.Second)
	calm.Store(true)
	if spec.Paused.Until == 0 {
		spec.Paused.Until = time.Now().UnixMilli()
	}
	own(members[0])
	pass(2 * time.Minute)
	for _, w := range members {
		w.stop()
	}
	j := k.read("job")
	if late := time.Since(time.UnixMilli(j.record.Through)); late > time.Minute {
		t.Errorf("the account ends %v ago", late)
	}
	if len(j.requests) != 0 {
		t.Errorf("requests %q were not heeded", j.requests)
	}
	if j.record.Open() {
		t.Errorf("a run without a result: %+v", j.record)
	}
}
