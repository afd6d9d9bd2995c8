package election_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// chaos injects random faults into a world, determined by a seed.
type chaos struct {
	*world

	rng    *rand.Rand
	setup  func(name string) setup
	number int // of contenders created so far
}

func (c *chaos) upTo(d time.Duration) time.Duration { return time.Duration(c.rng.Int64N(int64(d))) }

// oneMore starts a contender. Some contenders are slow.
func (c *chaos) oneMore() *contender {
	c.number++
	name := fmt.Sprintf("c%d", c.number)
	s := c.setup(name)
	switch c.rng.IntN(4) {
	case 0: // resigns
		d := c.upTo(20 * time.Second)
		s.serve = func(ctx context.Context, _ election.Term) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
	case 1: // winds down slowly
		d := c.upTo(sessionTimeout)
		s.serve = func(ctx context.Context, _ election.Term) {
			<-ctx.Done()
			<-time.After(d)
		}
	}
	return c.start(name, s)
}

// fault injects one fault.
func (c *chaos) fault() {
	live := c.live()
	if len(live) < 2 || len(live) < 6 && c.rng.IntN(4) == 0 {
		c.oneMore()
		return
	}
	victim := live[c.rng.IntN(len(live))]
	if c.rng.IntN(2) == 0 {
		for _, leader := range live {
			if _, held := leader.Held(); held {
				victim = leader
			}
		}
	}
	switch c.rng.IntN(9) {
	case 0:
		victim.kill()
	case 1:
		c.notef("%s is to leave", victim.name)
		victim.leave()
	case 2:
		c.notef("%s is partitioned", victim.name)
		victim.network.Partition()
		time.AfterFunc(c.upTo(sessionTimeout*5/2), victim.network.Heal)
	case 3:
		c.notef("%s stalls", victim.name)
		victim.stall.Begin()
		time.AfterFunc(c.upTo(sessionTimeout*5/2), victim.stall.End)
	case 4:
		c.notef("%s is disconnected", victim.name)
		victim.network.Disconnect()
	case 5, 6:
		c.cut(victim)
	case 7:
		c.notef("the server goes")
		c.Stop()
		time.Sleep(c.upTo(sessionTimeout))
		if err := c.Restart(zkdev.KeepSessions); err != nil {
			c.violatef("server: %v", err)
		}
		c.notef("the server is back")
	case 8:
		by := c.upTo(2*sessionTimeout) - sessionTimeout/2
		c.notef("the clock of %s is set ahead by %v", victim.name, by)
		victim.off.Add(int64(by))
	}
}

// cut drops or delays one of a contender's next requests, or its reply.
func (c *chaos) cut(victim *contender) {
	ops := []zkdev.Op{zkdev.OpAny, zkdev.OpCreate, zkdev.OpMulti, zkdev.OpGetData, zkdev.OpGetChildren2}
	op := ops[c.rng.IntN(len(ops))]
	actions := []zkdev.Action{
		zkdev.CutBefore(), zkdev.CutAfter(), zkdev.CutAfter(), zkdev.Delay(c.upTo(sessionTimeout)), zkdev.DelayReply(c.upTo(sessionTimeout)),
	}
	action, skip := actions[c.rng.IntN(len(actions))], c.rng.IntN(3)
	if op == zkdev.OpCreate && c.rng.IntN(2) == 0 {
		skip = 0
		victim = c.oneMore() // existing contenders have already created their nodes
		if c.rng.IntN(2) == 0 {
			time.AfterFunc(c.upTo(2*time.Second), victim.leave)
		}
	}
	c.notef("%s will lose a %v", victim.name, op)
	remove := c.Control(op, func(r *zkdev.Request) zkdev.Action {
		if r.Client != victim.name || r.Op == zkdev.OpConnect {
			return zkdev.Pass()
		}
		if skip--; skip >= 0 {
			return zkdev.Pass()
		}
		return action
	})
	time.AfterFunc(20*time.Second, remove)
}
