package prom

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swjobs/singleworker/singleworker"
)

// DefaultMaxJobs is the default of Collector.MaxJobs.
const DefaultMaxJobs = 1000

// Collector reads the metrics of Managers when they are scraped. It is a prometheus.Collector, safe
// for concurrent use.
type Collector struct {
	// MaxJobs is how many jobs of each Manager have series. The others are only part of the sums;
	// those that have series keep them as long as the Manager counts for them. Default:
	// DefaultMaxJobs; negative: none. Set it before the Collector is registered.
	MaxJobs int

	managers []*singleworker.Manager

	mu    sync.Mutex
	named []map[string]bool // the jobs that have series, by Manager
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector of Managers of different groups. A process that has several of
// one group registers a Collector for each, with a label:
// prometheus.WrapRegistererWith(prometheus.Labels{"instance_id": m.InstanceID()}, registry).
func NewCollector(managers ...*singleworker.Manager) *Collector {
	return &Collector{managers: slices.Clone(managers), named: make([]map[string]bool, len(managers))}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	instanceTable.Describe(ch)
	jobTable.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for i, m := range c.managers {
		stats := m.Stats()
		jobs := c.choose(i, stats.Jobs)
		instanceTable.Collect(ch, &instance{stats, m.Health(), len(stats.Jobs) - len(jobs)}, stats.ServerType)
		for _, name := range jobs {
			job := stats.Jobs[name]
			jobTable.Collect(ch, &job, stats.ServerType, name)
		}
	}
}

// choose returns the jobs that have series: those that had them, and others in the order of their
// names while there is room.
func (c *Collector) choose(manager int, jobs map[string]singleworker.JobStats) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	named, most := make(map[string]bool), cmp.Or(c.MaxJobs, DefaultMaxJobs)
	for name := range c.named[manager] {
		if _, still := jobs[name]; still {
			named[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		if len(named) >= most {
			break
		}
		named[name] = true
	}
	c.named[manager] = named
	return slices.Sorted(maps.Keys(named))
}

// Names lists the metrics as queries name them; a histogram has three names. Dashboards and rules
// can be checked with it.
func Names() []string { return slices.Concat(instanceTable.Names(), jobTable.Names()) }
