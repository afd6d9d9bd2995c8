package coord

import (
	"fmt"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// BenchmarkIdle measures a sync at 10,000 jobs at which nothing is due: of an instance that owns
// nearly all of them, and of one that owns one.
func BenchmarkIdle(b *testing.B) {
	const idle = 10_000
	for name, step := range map[string]func(owner, other *instance){
		"sync/owner": func(owner, _ *instance) { owner.syncNow() },
		"sync/other": func(_, other *instance) { other.syncNow() },
	} {
		b.Run(name, func(b *testing.B) {
			// The bubble's time stands still while it waits for a channel from outside, where the real time
			// is taken.
			steps, done := make(chan struct{}), make(chan struct{})
			go inBubble(b, func(t *testing.T) {
				roomtest.InGroup(t, func(g *roomtest.Group) {
					for k := range idle {
						g.SubmitSpec(fmt.Sprintf("job%05d", k), zkrec.Spec{Job: jobs.Job{Schedule: "@yearly"}, Since: 1})
					}
					in := &group{Group: g}
					owner := in.join("owner")
					roomtest.Pass(10 * roomtest.SyncPeriod)
					in.configure = func(cfg *Config) { cfg.Member.Instance.MaxSlots = 1 }
					other := in.join("other")
					roomtest.Pass(10 * roomtest.SyncPeriod)
					for range steps {
						step(owner, other)
						done <- struct{}{}
					}
				})
			}, done)
			steps <- struct{}{}
			<-done
			for b.Loop() {
				steps <- struct{}{}
				<-done
			}
			close(steps)
			<-done
		})
	}
}

// syncNow has an instance sync now.
func (m *instance) syncNow() {
	synced := make(chan struct{})
	m.loop.Post(func() { m.sync(); close(synced) })
	<-synced
}

// inBubble runs f as a test, which alone can have a bubble, and closes ended.
func inBubble(b *testing.B, f func(t *testing.T), ended chan<- struct{}) {
	defer close(ended)
	all := func(string, string) (bool, error) { return true, nil }
	if !testing.RunTests(all, []testing.InternalTest{{Name: b.Name(), F: f}}) {
		b.Error("the group did not do what it should")
	}
}
