package sim

import (
	"context"
	"errors"
	"iter"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func mapKeys[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

// fault injects one random fault.
func (w *world) fault() {
	live := w.cluster.Live()
	if len(live) == 0 {
		w.start("")
		return
	}
	victim := live[w.rng.IntN(len(live))]
	switch w.rng.IntN(24) {
	case 0, 1:
		w.kill(victim, len(live))
	case 2, 3:
		w.partition(victim)
	case 4:
		w.stall(victim)
	case 5:
		w.restart()
	case 6, 7, 8:
		w.cut(victim)
	case 9, 10:
		w.slow(victim)
	case 11:
		switch {
		case !w.Forced:
			victim.Client.Disconnect()
		case w.rng.IntN(2) == 0:
			w.expire()
		default:
			w.deleteNode(victim)
		}
	case 12:
		w.changeGroup(victim, len(live))
	case 13:
		w.changeJob()
	case 14:
		w.mute(victim)
	case 15:
		w.trigger(w.rng.IntN(len(w.shards)))
	case 16:
		w.pause(jobName(w.rng.IntN(len(w.shards))))
	case 17:
		w.order(victim.Name)
	case 18:
		if w.rng.IntN(3) == 0 {
			w.withdraw(victim)
		} else {
			w.order(victim.Name)
		}
	case 19, 20, 21, 22, 23:
		w.reshard()
	}
}

// order drains or disables an instance, as an operator would; most are enabled later, some only when the noise
// stops.
func (w *world) order(sid string) {
	give := (*admin.Client).Drain
	what := "drain "
	if w.rng.IntN(2) == 0 {
		give, what = (*admin.Client).Disable, "disable "
	}
	operate := func(what string, f func(ctx context.Context, c *admin.Client) error) {
		w.operate(what+sid, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				return unless(f(ctx, c), admin.ErrNoInstance, admin.ErrConflict)
			})
		})
	}
	operate(what, func(ctx context.Context, c *admin.Client) error {
		_, err := give(c, ctx, sid, admin.OrderOptions{By: "sim"})
		return err
	})
	if w.rng.IntN(4) == 0 {
		return
	}
	w.after(w.upTo(4*w.Session), func() {
		operate("enable ", func(ctx context.Context, c *admin.Client) error {
			_, err := c.Enable(ctx, sid)
			return err
		})
	})
}

// withdraw calls Drain as an instance's program would.
func (w *world) withdraw(victim *swtest.Instance) {
	w.notef("%s withdraws", victim.Name)
	patience := w.upTo(w.Session)
	w.later.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = victim.Drain(ctx) // continues after ctx has ended
	})
}

func (w *world) kill(victim *swtest.Instance, live int) {
	if live < 2 && w.rng.IntN(2) == 0 {
		return
	}
	w.notef("%s is killed", victim.Name)
	victim.Kill()
	time.Sleep(w.upTo(2 * w.Session))
	name := ""
	if w.rng.IntN(2) == 0 {
		name = victim.Name
	}
	w.start(name)
}

func (w *world) partition(victim *swtest.Instance) {
	d := w.upTo(w.Session * 5 / 2)
	w.notef("%s is partitioned for %v", victim.Name, d)
	victim.Partition()
	w.after(d, func() {
		w.notef("%s is healed", victim.Name)
		victim.Heal()
	})
}

func (w *world) stall(victim *swtest.Instance) {
	d := w.upTo(w.Session * 5 / 2)
	w.notef("%s stalls for %v", victim.Name, d)
	victim.Stall()
	w.after(d, func() {
		w.notef("%s resumes", victim.Name)
		victim.Resume()
	})
}

// restart stops the server for a while.
func (w *world) restart() {
	mode := zkdev.KeepSessions
	if w.Forced && w.rng.IntN(3) == 0 {
		mode = zkdev.DropSessions
	}
	away := w.upTo(w.Session)
	if w.rng.IntN(3) == 0 {
		away *= 3
	}
	w.notef("the server goes for %v; keeps sessions: %v", away, mode == zkdev.KeepSessions)
	w.cluster.Server.Stop()
	time.Sleep(away)
	if mode == zkdev.DropSessions {
		w.force(w.running()...)
	}
	if err := w.cluster.Server.Restart(mode); err != nil {
		w.violate(violation{7, "server", time.Now(), err.Error()})
	}
	w.notef("the server is back")
}

// running lists those that live, or are leaving.
func (w *world) running() (sids []string) {
	for _, i := range w.cluster.Instances() {
		if i.State() == swtest.Running || i.State() == swtest.Stopping {
			sids = append(sids, i.Name)
		}
	}
	return sids
}

// force notes that sessions of instances end from outside.
func (w *world) force(of ...string) {
	sids := make(map[string]bool)
	for _, sid := range of {
		sids[sid] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forced = append(w.forced, forced{time.Now(), sids})
}

func (w *world) expire() {
	sessions := w.cluster.Server.Sessions()
	if len(sessions) == 0 {
		return
	}
	session := sessions[w.rng.IntN(len(sessions))]
	w.notef("session %#x of %s is ended from outside", session.ID, session.Client)
	w.cluster.View(func(m *swtest.Model) {
		for sid, member := range m.Instances {
			if member.Session == session.ID {
				w.force(sid)
			}
		}
	})
	_ = w.cluster.Server.ExpireSession(session.ID) // may have ended by itself
}

// deleteNode deletes the node of a healthy instance: to the others it is dead. The instance may learn
// of it late and claim ticks meanwhile.
func (w *world) deleteNode(victim *swtest.Instance) {
	w.notef("someone deletes the node of %s", victim.Name)
	if w.rng.IntN(3) > 0 {
		d := w.upTo(w.Session * 6 / 10)
		w.control(victim, zkdev.OpAny, 0, 1, func() zkdev.Action { return zkdev.DelayReply(w.lasts(d)) })
		time.Sleep(w.Session / 4) // until its next heartbeat, or sooner
	}
	w.force(victim.Name)
	err := w.cluster.Delete(context.Background(), w.cluster.Tree().Instance(victim.Name))
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		w.violate(violation{7, victim.Name, time.Now(), err.Error()})
	}
}

// mute silences an instance while its session lives: the server refuses its
// heartbeats.
func (w *world) mute(victim *swtest.Instance) {
	d := w.upTo(3 * w.Session)
	w.notef("%s is mute for %v", victim.Name, d)
	end := time.Now().Add(d)
	place, beat := victim.Place(), "/alive/"+victim.Name
	w.removes = append(w.removes, w.cluster.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		if r.Client == place && time.Now().Before(end) && has(r, zkdev.OpSetData, beat) {
			return zkdev.Refuse(zkdev.SessionMoved) // that is: ask again
		}
		return zkdev.Pass()
	}))
}

var cutOps = []zkdev.Op{
	zkdev.OpMulti, zkdev.OpMulti, zkdev.OpMulti, zkdev.OpGetData, zkdev.OpGetChildren2, zkdev.OpExists,
	zkdev.OpPing, zkdev.OpConnect, zkdev.OpSetWatches, zkdev.OpAny,
}

// cut breaks a connection at one of the victim's next requests.
func (w *world) cut(victim *swtest.Instance) {
	op := cutOps[w.rng.IntN(len(cutOps))]
	action, what := zkdev.CutBefore(), "before"
	if w.rng.IntN(3) > 0 {
		action, what = zkdev.CutAfter(), "after"
	}
	skip := w.rng.IntN(4)
	w.notef("%s is cut %s its %dth %v", victim.Name, what, skip+1, op)
	w.control(victim, op, skip, 1, func() zkdev.Action { return action })
}

// slow delays some of the victim's next requests, or their replies.
func (w *world) slow(victim *swtest.Instance) {
	op := cutOps[w.rng.IntN(len(cutOps))]
	d := w.upTo(w.Session * 6 / 10)
	kind := zkdev.Delay
	if w.rng.IntN(2) == 0 {
		kind = zkdev.DelayReply
	}
	times := 1 + w.rng.IntN(5)
	w.notef("%s waits %v at %d %v", victim.Name, d, times, op)
	w.control(victim, op, 0, times, func() zkdev.Action { return kind(w.lasts(d)) })
}

// control applies an action to the victim's requests, except for the first few.
func (w *world) control(victim *swtest.Instance, op zkdev.Op, skip, times int, action func() zkdev.Action) {
	name := victim.Place()
	w.removes = append(w.removes, w.cluster.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
		if r.Client != name || times == 0 {
			return zkdev.Pass()
		}
		if skip > 0 {
			skip--
			return zkdev.Pass()
		}
		times--
		return action()
	}))
}

// changeGroup makes an instance join or leave.
func (w *world) changeGroup(victim *swtest.Instance, live int) {
	if live < 8 && (live < 2 || w.rng.IntN(2) == 0) {
		w.start("")
		return
	}
	w.notef("%s leaves", victim.Name)
	victim.Leave()
}

func (w *world) changeJob() {
	k := w.rng.IntN(len(w.shards))
	if w.jobs[jobName(k)] {
		w.cancel(k)
		if w.rng.IntN(2) == 0 {
			return
		}
		time.Sleep(w.upTo(w.Session))
	}
	w.submit(k)
}

// trigger asks for a manual run, or for two at once: of a job, with all its shards, or of one shard.
func (w *world) trigger(k int) {
	name := jobName(k)
	if n := w.shards[k]; n > 0 && w.rng.IntN(2) == 0 {
		name = zkrec.ShardSlot(name, w.rng.IntN(n))
	}
	for range 1 + w.rng.IntN(2) {
		w.operate("trigger "+name, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				_, err := c.Trigger(ctx, name, admin.TriggerOptions{Args: map[string]string{"by": "hand"}})
				return unless(err, admin.ErrNotFound, admin.ErrNoShard, admin.ErrNoHandler, admin.ErrBusy, admin.ErrConflict)
			})
		})
	}
}

// pause pauses a job for a while. Half of the pauses end by themselves.
func (w *world) pause(name string) {
	d := w.upTo(3*w.Session) + time.Second
	missed := []jobs.MisfirePolicy{"", "skip", "once", "all"}[w.rng.IntN(4)]
	opts := admin.PauseOptions{Missed: missed, By: "sim"}
	resumed := w.rng.IntN(2) == 0
	if !resumed {
		opts.Until = time.Now().Add(d)
	}
	operate := func(what string, f func(ctx context.Context, c *admin.Client) error) {
		w.operate(what+" "+name, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				return unless(f(ctx, c), admin.ErrNotFound, admin.ErrConflict)
			})
		})
	}
	operate("pause", func(ctx context.Context, c *admin.Client) error {
		_, err := c.Pause(ctx, name, opts)
		return err
	})
	if resumed {
		w.after(d, func() {
			operate("resume", func(ctx context.Context, c *admin.Client) error {
				_, err := c.Resume(ctx, name, admin.ResumeOptions{Missed: missed})
				return err
			})
		})
	}
}

// unless is err, or nil if that is one of those that may be.
func unless(err error, may ...error) error {
	for _, one := range may {
		if errors.Is(err, one) {
			return nil
		}
	}
	return err
}
