package catalog

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Signals tell of changes of jobs' own nodes, each of some of the jobs. So these nodes are not
// watched.
type Signals struct {
	catalog *Catalog
	all     [zkrec.Signals]signal
}

type signal struct {
	*session.Listener

	// All its jobs are read when anything may have changed, and then not again before a time on Mono.
	notBefore time.Duration
	due       bool
}

func newSignals(c *Catalog) *Signals {
	s := &Signals{catalog: c}
	for n := range s.all {
		s.all[n].Listener = session.Listen(c.loop, zkconn.CreateOp(c.loop.Tree.Signal(n), nil), func(about string) { s.told(n, about) })
	}
	return s
}

// signalReads lists the reads of all signals, by their numbers.
func signalReads(tree zkrec.Tree) []zkconn.Read {
	reads := make([]zkconn.Read, zkrec.Signals)
	for n := range reads {
		reads[n] = zkconn.Read{Path: tree.Signal(n), Watch: true}
	}
	return reads
}

// joined follows the signals in a connection, in which they may have been read already.
func (s *Signals) joined(read []zkconn.ReadResult) {
	for n := range s.all {
		one := &s.all[n]
		one.notBefore, one.due = 0, false
		if read != nil {
			one.Joined(&read[n])
		} else {
			one.Joined(nil)
		}
	}
}

// Hear follows a signal, which has changed.
func (s *Signals) Hear(n int) { s.all[n].Hear() }

// told reads the job that a signal names, or else all of its jobs.
func (s *Signals) told(n int, job string) {
	if zkrec.IsJob(job) && zkrec.SignalOf(job) == n {
		s.catalog.RefreshJob(job)
	} else {
		s.refreshAll(n)
	}
}

// refreshAll reads all jobs of a signal: at most once in a sync period, for while many jobs are
// changed, each change could lead to that at each instance.
func (s *Signals) refreshAll(n int) {
	one, now := &s.all[n], s.catalog.loop.Now()
	if one.due = now < one.notBefore; one.due {
		return
	}
	one.notBefore = now + s.catalog.loop.SyncPeriod()
	for _, j := range s.catalog.sorted.of(s.catalog.jobs) {
		if j.signal == n {
			s.catalog.Refresh(j)
		}
	}
}

// sync reads the jobs of signals for which it was too soon.
func (s *Signals) sync() {
	for n := range s.all {
		if s.all[n].due {
			s.refreshAll(n)
		}
	}
}
