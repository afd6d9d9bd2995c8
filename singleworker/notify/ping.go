package notify

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Ping has the sender request a URL as long as all is well, of a service such as healthchecks.io,
// which raises an alarm when that stops. So it is heard of when nobody lives who could tell.
type Ping struct {
	// URL is requested with GET. It must be HTTPS, or of this machine.
	URL Secret
	// Job, if set, is the name of a job: the URL is requested when a run of it, or of a shard, has
	// succeeded, at most once in 10 s. Default: the URL is requested every Config.PingEvery, if
	// ZooKeeper answers and an instance lives that takes jobs.
	Job string
	// Transport makes the requests. Default: http.DefaultTransport.
	Transport http.RoundTripper
}

func (p Ping) check() error { return web{p.URL, p.Transport}.check() }

const (
	pingEvery    = 10 * time.Second // of a job
	pingAttempts = 3
	pingAgain    = 5 * time.Second
)

// pinger sends the pings of a term. It belongs to the goroutine that owns the book.
type pinger struct {
	n    *Notifier
	last []time.Time // by ping
	busy []bool
}

func newPinger(n *Notifier) *pinger {
	return &pinger{n: n, last: make([]time.Time, len(n.cfg.Pings)), busy: make([]bool, len(n.cfg.Pings))}
}

// take pings for a run that has succeeded.
func (p *pinger) take(d *desk, ev admin.Event) {
	if ev.Kind != admin.EventRunEnded || !ev.Entry.OK() {
		return
	}
	for i, ping := range p.n.cfg.Pings {
		if ping.Job != "" && ping.Job == zkrec.JobOfSlot(ev.Job) && time.Since(p.last[i]) >= pingEvery {
			p.send(d, i)
		}
	}
}

// live pings for the group again and again, if ZooKeeper says that an instance lives that takes
// jobs.
func (p *pinger) live(ctx context.Context, d *desk, client *admin.Client) error {
	for {
		instances, err := client.Instances(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(instances, func(i admin.Instance) bool { return i.State == admin.InstanceActive }) {
			ping := func() {
				for k, ping := range p.n.cfg.Pings {
					if ping.Job == "" {
						p.send(d, k)
					}
				}
			}
			if err := d.post(ctx, ping); err != nil {
				return err
			}
		}
		select {
		case <-time.After(p.n.cfg.PingEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *pinger) send(d *desk, i int) {
	if p.busy[i] {
		return
	}
	p.last[i], p.busy[i] = time.Now(), true
	d.others.Go("ping", func(ctx context.Context) error {
		if err := p.try(ctx, p.n.cfg.Pings[i]); err != nil && ctx.Err() == nil {
			p.n.count(func(s *Stats) { s.PingsFailed++ })
			p.n.log.WarnContext(ctx, "ping not sent", "ping", i, "job", p.n.cfg.Pings[i].Job, "err", err)
		}
		_ = d.post(ctx, func() { p.busy[i] = false }) // else the term is over
		return nil
	})
}

// try requests the URL, a few times if necessary.
func (p *pinger) try(ctx context.Context, ping Ping) error {
	for attempt := 1; ; attempt++ {
		err := task.Protect("ping", func() error {
			ctx, cancel := context.WithTimeout(ctx, p.n.cfg.Timeout)
			defer cancel()
			_, err := web{ping.URL, ping.Transport}.send(ctx, http.MethodGet, make(http.Header), http.NoBody)
			return err
		})
		if err == nil || attempt == pingAttempts {
			return err
		}
		select {
		case <-time.After(pingAgain):
		case <-ctx.Done():
			return err
		}
	}
}
