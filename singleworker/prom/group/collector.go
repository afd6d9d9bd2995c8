package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Options changes how a Collector reads. The zero value of each field means its default.
type Options struct {
	// Interval is how long a reading is served before a scrape causes the next one. Default 15 s.
	Interval time.Duration
	// Timeout limits a reading; it should be shorter than the scrape's. Default 8 s.
	Timeout time.Duration
	// MaxJobs is how many jobs have series: the first ones in alphabetical order. Default 10,000;
	// negative: none.
	MaxJobs int
}

// The defaults of Options.
const (
	DefaultInterval = 15 * time.Second
	DefaultTimeout  = 8 * time.Second
	DefaultMaxJobs  = 10_000
)

// Collector reads a group when it is scraped. It is a prometheus.Collector, safe for concurrent
// use.
type Collector struct {
	cfg  admin.Config
	opts Options

	mu        sync.Mutex // held while the group is read: scrapes that come meanwhile get the same reading
	client    *admin.Client
	closed    bool
	tried     time.Time // when the last reading was begun
	latest    reading
	succeeded map[string]time.Time // the last success of each job
}

var _ prometheus.Collector = (*Collector)(nil)

// reading is the metrics' source.
type reading struct {
	up        bool
	at        time.Time // of the last one that succeeded, by the group's time
	took      time.Duration
	reads     uint64
	errors    uint64
	jobs      []admin.JobStatus // sorted by name
	instances []admin.Instance
	limits    []admin.Limit // none, unless a job names one
	omitted   int
	err       error
}

// NewCollector returns a Collector of the group. It connects when it is first scraped. An invalid
// field of cfg is reported as an *invalid.FieldError. The caller must Close it.
func NewCollector(cfg admin.Config, opts Options) (*Collector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts.Interval, opts.Timeout = cmp.Or(opts.Interval, DefaultInterval), cmp.Or(opts.Timeout, DefaultTimeout)
	opts.MaxJobs = cmp.Or(opts.MaxJobs, DefaultMaxJobs)
	if opts.Interval < 0 || opts.Timeout < 0 {
		return nil, fmt.Errorf("group: Interval %v, Timeout %v: want positive durations", opts.Interval, opts.Timeout)
	}
	return &Collector{cfg: cfg, opts: opts, succeeded: make(map[string]time.Time)}, nil
}

// Close ends the connection. Scrapes after it say that the group is not up. Idempotent.
func (c *Collector) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.client != nil {
		c.client.Close()
		c.client = nil
	}
}

// Err is why the last reading failed, or nil. It waits for a reading in progress.
func (c *Collector) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest.err
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	groupTable.Describe(ch)
	jobTable.Describe(ch)
	instanceTable.Describe(ch)
	limitTable.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.tried.IsZero() || now.Sub(c.tried) >= c.opts.Interval {
		c.tried = now
		c.read()
	}
	group := c.cfg.ServerType
	groupTable.Collect(ch, &c.latest, group)
	for _, i := range c.latest.instances {
		if job.CheckNodeName(i.ID) == nil { // otherwise somebody made the node, and its name may be no text
			instanceTable.Collect(ch, i, group, i.ID)
		}
	}
	for _, l := range c.latest.limits {
		if job.CheckNodeName(l.Name) == nil { // otherwise as of an instance
			limitTable.Collect(ch, limitOf{l, c.latest.at}, group, l.Name)
		}
	}
	for _, j := range c.latest.jobs[:len(c.latest.jobs)-c.latest.omitted] {
		if j.Reason.Code == reason.BadName {
			continue // as of an instance
		}
		jobTable.Collect(ch, &status{j, slotsOf(j), c.succeeded[j.Name], c.latest.at}, group, j.Name)
	}
}

// read reads the group. mu must be held.
func (c *Collector) read() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), c.opts.Timeout, fmt.Errorf("the group was not read within %v", c.opts.Timeout))
	defer cancel()
	l := &c.latest
	begun := time.Now()
	l.reads++
	if l.err = c.fetch(ctx); l.err != nil {
		l.up, l.jobs, l.instances, l.limits, l.omitted = false, nil, nil, nil, 0
		l.errors++
		return
	}
	l.up, l.took = true, time.Since(begun)
	l.at, _, _ = c.client.Clock()
	l.omitted = max(0, len(l.jobs)-max(0, c.opts.MaxJobs))
	c.remember()
}

// fetch fills the latest reading. mu must be held.
func (c *Collector) fetch(ctx context.Context) (err error) {
	if c.closed {
		return errors.New("group: the collector is closed")
	}
	if c.client == nil {
		if c.client, err = admin.Dial(ctx, c.cfg); err != nil {
			c.client = nil
			return err
		}
	}
	if c.latest.jobs, err = c.client.List(ctx); err != nil {
		return err
	}
	slices.SortFunc(c.latest.jobs, func(a, b admin.JobStatus) int { return strings.Compare(a.Name, b.Name) })
	if c.latest.limits, err = c.client.LimitsOf(ctx, c.latest.jobs); err != nil {
		return err
	}
	c.latest.instances, err = c.client.Instances(ctx)
	return err
}

// remember notes when each job last succeeded: a record has only the last run. mu must be held.
func (c *Collector) remember() {
	before := c.succeeded
	c.succeeded = make(map[string]time.Time, len(c.latest.jobs))
	for _, j := range c.latest.jobs {
		if at := latestOf(before[j.Name], lastSuccess(j)); !at.IsZero() {
			c.succeeded[j.Name] = at
		}
	}
}

// slotsOf lists the slots of a job without, of one that runs on every instance, the parts of
// instances that are gone.
func slotsOf(j admin.JobStatus) []admin.JobStatus {
	return slices.DeleteFunc(slices.Clone(words.Slots(j)), func(slot admin.JobStatus) bool {
		return slot.State == admin.StateUnowned && slot.Reason.Code == reason.Absent
	})
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lastSuccess is when every slot of a job has succeeded since, as far as the records tell. It is
// zero if they do not tell it of each slot.
func lastSuccess(j admin.JobStatus) (oldest time.Time) {
	for i, slot := range slotsOf(j) {
		var at time.Time
		switch {
		case slot.LastRun != nil && slot.LastRun.OK():
			at = slot.LastRun.Ended
		case slot.Failing != nil:
			at = slot.Failing.OK
		}
		if i == 0 || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}
