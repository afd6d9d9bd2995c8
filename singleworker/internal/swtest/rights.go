package swtest

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
)

// Right is a lease as its instance has it, whether or not anything runs: from the moment at which
// it may start runs to the one at which it may not any more. A lease that lapses and is renewed
// later is two.
type Right struct {
	Instance    *Instance
	Job         string
	Token       int64
	From, Until time.Time
	Closed      bool // otherwise its owner has the slot, and may have another lease of it with its next claim
}

// Rights lists the leases so far, in the order of their beginnings. A live instance's leases may be
// extended yet.
func (c *Cluster) Rights() []Right {
	c.mu.Lock()
	defer c.mu.Unlock()
	rights := make([]Right, len(c.rights))
	for k, r := range c.rights {
		rights[k] = *r
	}
	return rights
}

// rightChanged is told by the instance itself.
func (i *Instance) rightChanged(changed leases.Change) {
	c, now := i.cluster, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.State() == Killed {
		return // a dead instance runs nothing
	}
	job := string(changed.Slot)
	r := i.rights[job]
	if r != nil && r.Token == changed.Token {
		r.Closed = changed.Closed
	}
	switch {
	case r != nil && r.Token == changed.Token && !r.Until.Before(now): // renewed at its very end, it has not lapsed
		r.Until = later(changed.Until, now)
	case changed.Until.After(now):
		r = &Right{Instance: i, Job: job, Token: changed.Token, From: now, Until: changed.Until}
		i.rights[job] = r
		c.rights = append(c.rights, r)
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
