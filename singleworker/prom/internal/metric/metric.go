// Package metric makes Prometheus metrics of a table: each metric is one row, with how its values
// are read.
package metric

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swjobs/singleworker/singleworker"
)

// Kind is the type of a metric.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one metric that is read from an S.
type Metric[S any] struct {
	name   string
	kind   Kind
	labels []string
	help   string
	read   func(from S, to *Out)
}

// Row returns a metric: its name with prefix and unit, its labels beside those that all metrics of
// the Table have, and its help, one sentence.
func Row[S any](name string, kind Kind, labels []string, help string, read func(from S, to *Out)) Metric[S] {
	return Metric[S]{name, kind, labels, help, read}
}

// Table is a set of metrics. It is not changed once it is made.
type Table[S any] struct {
	metrics []Metric[S]
	descs   []*prometheus.Desc
	labels  []string
}

// NewTable makes a table of metrics that have these labels first.
func NewTable[S any](labels []string, metrics []Metric[S]) *Table[S] {
	t := &Table[S]{metrics: metrics, labels: labels}
	for _, m := range metrics {
		t.descs = append(t.descs, prometheus.NewDesc(m.name, m.help, slices.Concat(labels, m.labels), nil))
	}
	return t
}

// Describe sends the descriptions.
func (t *Table[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range t.descs {
		ch <- desc
	}
}

// Collect reads every metric, with the values of the labels that all have.
func (t *Table[S]) Collect(ch chan<- prometheus.Metric, from S, labels ...string) {
	for i, m := range t.metrics {
		m.read(from, &Out{ch, t.descs[i], m.kind, labels})
	}
}

// Names lists the metrics as queries name them: of a histogram there are three.
func (t *Table[S]) Names() []string {
	var names []string
	for _, m := range t.metrics {
		if m.kind == Histogram {
			names = append(names, m.name+"_bucket", m.name+"_sum", m.name+"_count")
		} else {
			names = append(names, m.name)
		}
	}
	return names
}

// Page lists the metrics as a Markdown table.
func (t *Table[S]) Page() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range t.metrics {
		var labels []string
		for _, label := range slices.Concat(t.labels, m.labels) {
			labels = append(labels, "`"+label+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(labels, ", "), m.help)
	}
	return b.String()
}

// Out takes the values of one metric.
type Out struct {
	ch     chan<- prometheus.Metric
	desc   *prometheus.Desc
	kind   Kind
	labels []string
}

// Value sends a value of a counter or a gauge.
func (o *Out) Value(v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if o.kind == Counter {
		kind = prometheus.CounterValue
	}
	o.ch <- prometheus.MustNewConstMetric(o.desc, kind, v, slices.Concat(o.labels, labels)...)
}

// Bool sends 1 for true and 0 for false.
func (o *Out) Bool(is bool, labels ...string) {
	v := 0.0
	if is {
		v = 1
	}
	o.Value(v, labels...)
}

// Time sends a time as seconds since 1970. The zero time is not sent.
func (o *Out) Time(t time.Time, labels ...string) {
	if !t.IsZero() {
		o.Value(float64(t.UnixMilli())/1000, labels...)
	}
}

// ByKey sends a value for each key: for those known in advance also if it is zero, so that a first
// occurrence is an increase.
func ByKey[K ~string](o *Out, values map[K]uint64, known []K, labels ...string) {
	for _, key := range known {
		o.Value(float64(values[key]), append(slices.Clone(labels), string(key))...)
	}
	for key, n := range values {
		if !slices.Contains(known, key) {
			o.Value(float64(n), append(slices.Clone(labels), string(key))...)
		}
	}
}

// Histogram sends a histogram that has singleworker.HistogramBounds.
func (o *Out) Histogram(h *singleworker.Histogram) { o.HistogramOf(h, singleworker.HistogramBounds()) }

// HistogramOf sends a histogram with those bounds.
func (o *Out) HistogramOf(h *singleworker.Histogram, bounds []time.Duration, labels ...string) {
	buckets, below := make(map[float64]uint64, len(h.Buckets)), uint64(0)
	for i, bound := range bounds {
		below += h.Buckets[i]
		buckets[bound.Seconds()] = below
	}
	o.ch <- prometheus.MustNewConstHistogram(o.desc, h.Count(), h.Sum.Seconds(), buckets, slices.Concat(o.labels, labels)...)
}
