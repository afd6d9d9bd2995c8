package swtest

import (
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// victim is the process that owns a slot, or else one that lives, or nil.
func (w *World) victim(slot string) *process {
	owner := w.Owner(slot)
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.processes[owner]; p != nil {
		return p
	}
	for _, name := range slices.Sorted(maps.Keys(w.processes)) {
		if p := w.processes[name]; p.lives() {
			return p
		}
	}
	return nil
}

func (p *process) lives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead && p.instance != nil
}

// strike has a fault happen, in a process if it concerns one. It does not wait for its end.
func (w *World) strike(f Fault, p *process) {
	select {
	case <-w.quiet:
		return
	default:
	}
	w.mu.Lock()
	w.struck = append(w.struck, f)
	w.mu.Unlock()
	switch f.Kind { //nolint:exhaustive // the others strike a process, below
	case Restart:
		w.restart(f)
		return
	case Refuse:
		w.refuse(f)
		return
	}
	if p == nil || !p.lives() {
		return
	}
	w.notef("%s: %v", p.name, f)
	switch f.Kind { //nolint:exhaustive // the others were above
	case Kill:
		p.mu.Lock()
		p.dead = true
		p.mu.Unlock()
		p.instance.Kill()
		w.after(f.For, func() { w.start(p, p.name, p.version) })
	case Stop:
		p.stop(f.For)
	case Cut:
		p.instance.Partition()
		w.after(f.For, p.instance.Heal)
	case Slow:
		w.after(f.For, w.slow(p, f.By))
	case Clock:
		p.ahead.Add(int64(f.By))
		w.after(f.For, func() { p.ahead.Add(-int64(f.By)) })
	case Deploy:
		w.after(0, func() {
			_ = p.instance.Stop()
			w.start(p, p.name, 3-p.version) // 1 or 2: the next deploy brings the first one back
		})
	}
}

// after does something later, or when the faults end.
func (w *World) after(d time.Duration, f func()) {
	w.later.Go(func() {
		select {
		case <-time.After(d):
		case <-w.quiet:
		}
		f()
	})
}

// stop stops a process unless it is stopped.
func (p *process) stop(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		return
	}
	over := make(chan struct{})
	p.over = over
	p.instance.Stall()
	p.world.after(d, func() {
		p.instance.Resume()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.over = nil
		close(over)
	})
}

// slow has the requests of a process take so long, until the returned function is called.
func (w *World) slow(p *process, by time.Duration) (end func()) {
	from := p.instance.Place()
	return w.Server().ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
		if r.Client != from {
			return zkdev.Pass()
		}
		return zkdev.Delay(by)
	})
}

// restart has ZooKeeper go, unless it is away, and come back.
func (w *World) restart(f Fault) {
	w.mu.Lock()
	away := w.away
	w.away = true
	w.mu.Unlock()
	if away {
		return
	}
	w.notef("ZooKeeper: %v", f)
	w.Server().Stop()
	w.after(f.For, func() {
		if err := w.Server().Restart(zkdev.KeepSessions); err != nil {
			w.tb.Errorf("swtest: restart: %v", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.away = false
	})
}

// refuse has outside systems refuse: at the fault's place, or everywhere.
func (w *World) refuse(f Fault) {
	at := place{f.Slot, f.Point}
	if f.Point == "" {
		at = place{}
	}
	w.notef("outside: %v", f)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusing[at]++
	w.after(max(f.For, time.Millisecond), func() { // at least the call that has come there
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refusing[at]--
	})
}
