package catalog

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// audit lists all registrations once in a while, at one member, to find registrations of dead
// instances that nobody saw die. It also has the log of who did what be pruned.
type audit struct {
	loop    *session.Loop
	cleanup *member.Cleanup

	running bool
	next    time.Duration // Mono
}

// Sync lists the registrations when that is due.
func (a *audit) Sync(jobs []*Job) {
	switch {
	case !a.cleanup.First():
		a.next = 0
		return
	case a.running || len(jobs) == 0 || a.loop.Now() < a.next:
		return
	}
	a.running = true
	reads := make([]zkconn.Read, 0, len(jobs))
	for _, j := range jobs {
		reads = append(reads, zkconn.Read{Path: a.loop.Tree.Register(j.Name), Children: true})
	}
	a.loop.Async("prune log", func(ctx context.Context) func() {
		deeds.Prune(ctx, a.loop.Conn, a.loop.Tree)
		return func() {}
	})
	a.loop.Read(reads, func(results []zkconn.ReadResult) {
		a.running = false
		a.next = a.loop.NextLook()
		found := make(map[string]struct{})
		for _, r := range results {
			if zkconn.IsUnknown(r.Err) {
				a.next = 0
			}
			for _, sid := range r.Names {
				found[sid] = struct{}{}
			}
		}
		a.cleanup.Registered(slices.Collect(maps.Keys(found)))
	})
}
