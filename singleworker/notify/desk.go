package notify

import (
	"context"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/task"
)

const (
	// settleAfter is for how long changes are gathered before they are recorded.
	settleAfter = time.Second
	// The pauses after an attempt to deliver that failed.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute
	// saveGrace is how long the sender tries to record its messages when its term has ended.
	saveGrace = 5 * time.Second
)

// desk is the sender in a term. The book belongs to the goroutine of run; others send closures to
// the inbox.
type desk struct {
	n        *Notifier
	store    *store
	book     *book
	outboxes map[string]*outbox
	inbox    chan func()
	pinger   *pinger
	others   *task.Group // what ends with the term
	lastGap  time.Time   // when a gap was last warned of

	warned map[string]bool // the targets that do not exist, and of which it was warned
}

// outbox holds a target's next messages.
type outbox struct {
	busy    bool
	waiting bool      // there is something to be told, at due
	due     time.Time // not before that
	after   time.Time // a message may be sent after that
	retry   time.Duration
}

// run returns when the term has ended, deliveries in progress included.
func (d *desk) run(ctx context.Context) error {
	client, err := admin.Dial(ctx, d.n.cfg.Group)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, target := range d.n.targets {
		d.outboxes[target] = &outbox{}
	}
	g := task.NewGroup(ctx)
	d.others = g
	jobs, err := client.List(ctx)
	if err != nil {
		return err
	}
	now, _, _ := client.Clock()
	d.book.begin(jobs, now) // before anything is told or forgotten
	since := d.book.cursor
	g.Go("follow the group", func(ctx context.Context) error { return d.follow(ctx, client, since) })
	if slices.ContainsFunc(d.n.cfg.Pings, func(p Ping) bool { return p.Job == "" }) {
		g.Go("ping for the group", func(ctx context.Context) error { return d.pinger.live(ctx, d, client) })
	}
	g.Go("tell", func(ctx context.Context) error { return d.tell(ctx) })
	return g.Wait()
}

// post has f called by the goroutine that owns the book.
func (d *desk) post(ctx context.Context, f func()) error {
	select {
	case d.inbox <- f:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow posts what happens in the group.
func (d *desk) follow(ctx context.Context, client *admin.Client, since int64) error {
	for ev, err := range client.Watch(ctx, admin.WatchOptions{Since: since, Trouble: true}) {
		if err != nil {
			return err
		}
		if ev.At.IsZero() { // something was deleted
			ev.At, _, _ = client.Clock()
		}
		if err := d.post(ctx, func() { d.take(ctx, ev) }); err != nil {
			return err
		}
	}
	return nil
}

func (d *desk) take(ctx context.Context, ev admin.Event) {
	d.pinger.take(d, ev)
	d.book.take(ev)
	if ev.Kind != admin.EventGap || ev.Gap.What == admin.GapInstances {
		return
	}
	d.n.count(func(s *Stats) { s.Gaps++ })
	if time.Since(d.lastGap) > time.Minute {
		d.lastGap = time.Now()
		d.n.log.WarnContext(ctx, "notifications may be missing: the records do not tell everything that happened",
			"job", ev.Job, "what", ev.Gap.What, "reason", ev.Gap.Error)
	}
}

// tell owns the book. It records the events, and then has the targets told.
func (d *desk) tell(ctx context.Context) error {
	group := task.NewGroup(context.WithoutCancel(ctx)) // a delivery in progress ends by itself: to break it off leaves its outcome unknown
	alarm := time.NewTimer(settleAfter)
	defer alarm.Stop()
	var settled, wake time.Time // wake is when the alarm ends
	sooner := func(at time.Time) {
		if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
			wake = at
			alarm.Reset(time.Until(at))
		}
	}
	sooner(time.Now())
	var err error
	for err == nil && ctx.Err() == nil {
		select {
		case f := <-d.inbox:
			f()
			sooner(settled.Add(settleAfter))
		case <-alarm.C:
			wake, settled = time.Time{}, time.Now()
			var next time.Time
			if next, err = d.settle(ctx, group); err == nil {
				sooner(next)
			}
		case <-ctx.Done():
		}
	}
	if lost := d.finish(ctx, group); lost != nil {
		d.n.log.WarnContext(ctx, "what was told is not recorded; the next sender may repeat it", "err", lost)
	}
	return err
}

// finish waits for the deliveries in progress and records them. The next sender begins when this
// one has returned.
func (d *desk) finish(ctx context.Context, group *task.Group) error {
	ended := make(chan struct{})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.n.cfg.Timeout+saveGrace)
	defer cancel()
	waiting := task.NewGroup(last)
	waiting.Go("wait for deliveries", func(context.Context) error {
		err := group.Wait()
		close(ended)
		return err
	})
	for open := true; open; {
		select {
		case f := <-d.inbox:
			f()
		case <-ended:
			open = false
		}
	}
	if err := waiting.Wait(); err != nil {
		return err
	}
	save, cancelSave := context.WithTimeout(last, saveGrace)
	defer cancelSave()
	return d.store.save(save, d.book, false)
}

// settle records the book and begins deliveries. It returns when something is due next; zero if
// nothing is.
func (d *desk) settle(ctx context.Context, group *task.Group) (next time.Time, err error) {
	owed := d.book.owed(d.n.targets)
	due, next := d.due(owed)
	if err := d.store.save(ctx, d.book, len(due) > 0); err != nil {
		return next, err
	}
	d.warnUnknown(ctx)
	if n := d.book.dropped; n > 0 {
		d.book.dropped = 0
		d.n.count(func(s *Stats) { s.Dropped += n })
		d.n.log.ErrorContext(ctx, "notifications dropped: too many wait for targets that do not answer", "episodes", n)
	}
	for _, target := range due {
		d.deliver(group, target, d.outboxes[target], owed[target])
	}
	return next, nil
}

// warnUnknown says once in a term of each target that a job names and that does not exist.
func (d *desk) warnUnknown(ctx context.Context) {
	for target, job := range d.book.unknown {
		if !d.warned[target] {
			d.warned[target] = true
			d.n.log.WarnContext(ctx, "a job names a target of notifications that does not exist: nobody is told", "target", target, "job", job,
				"targets", d.n.targets)
		}
	}
}

// due lists the targets that are to be told now, and says when the next one is.
func (d *desk) due(owed map[string][]owing) (now []string, next time.Time) {
	for _, target := range d.n.targets {
		o := d.outboxes[target]
		switch {
		case o.busy || len(owed[target]) == 0:
			o.waiting = o.waiting && len(owed[target]) > 0
			continue
		case !o.waiting:
			o.waiting, o.due = true, time.Now().Add(d.n.cfg.Gather)
		}
		at := o.due
		if o.after.After(at) {
			at = o.after
		}
		if !at.After(time.Now()) {
			now = append(now, target)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return now, next
}

// deliver sends a message.
func (d *desk) deliver(group *task.Group, target string, o *outbox, items []owing) {
	sender := d.n.cfg.Targets[target]
	more := false
	if most := sender.Most(); most > 0 && len(items) > most {
		items, more = items[:most], true
	}
	sending(items)
	o.busy = true
	list := make([]Item, len(items))
	for i := range items {
		list[i] = items[i].item
	}
	m := d.n.message(list)
	group.Go("deliver", func(ctx context.Context) error {
		err := task.Protect("deliver to "+target, func() error {
			ctx, cancel := context.WithTimeout(ctx, d.n.cfg.Timeout)
			defer cancel()
			return sender.Send(ctx, m)
		})
		d.inbox <- func() { d.delivered(ctx, target, o, items, more, err) }
		return nil
	})
}

// delivered takes in the outcome of a delivery.
func (d *desk) delivered(ctx context.Context, target string, o *outbox, items []owing, more bool, err error) {
	d.n.count(func(s *Stats) {
		t := s.Targets[target]
		if t.Err = err; err != nil {
			t.Failed++
		} else {
			t.Sent++
		}
		s.Targets[target] = t
	})
	o.busy = false
	if err != nil {
		o.retry = min(max(firstRetry, 2*o.retry), lastRetry)
		o.after = time.Now().Add(task.Jitter(o.retry))
		d.n.log.WarnContext(ctx, "notification not delivered; it is tried again", "target", target, "items", len(items),
			"retry_in", o.retry, "err", err)
		return
	}
	o.retry, o.waiting = 0, more
	if !more {
		o.after = time.Now().Add(d.n.cfg.Every)
	}
	d.book.sent(target, items)
	d.n.log.InfoContext(ctx, "notification delivered", "target", target, "items", len(items))
}
