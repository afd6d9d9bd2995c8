package bench

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// A cost is a figure of the table of the costs of jobs.
type cost struct {
	line, unit string
	what       string   // it counts
	beside     []beside // the first one is what goals may depend on
	at         []target
}

// beside is a figure to compare with.
type beside struct {
	name       string
	line, unit string // the same unit if it is empty
}

// target is a group, and the figure's goal there.
type target struct {
	size // none: package compare measures the line
	goal *goal
}

// goal is a limit: so many times the compared figure, and so much more.
type goal struct {
	times, more float64
	least       bool // it is the least that the figure should be, rather than the most
}

func most(n float64) *goal { return &goal{more: n} }

// peers are the figures that package compare measures besides singleworker's.
func peers(line string) []beside {
	return []beside{{"River", line + "/river", ""}, {"gocron + redis", line + "/gocron", ""}}
}

// alone is gocron without a lock.
func alone(line string) []beside { return []beside{{"bare gocron", line + "/gocron", ""}} }

var (
	atRest = []target{{size{10000, 6}, nil}, {size{1000, 30}, nil}}
	inRuns = []target{{size{1000, 6}, nil}, {size{1000, 30}, nil}}

	inFields = []target{{size{200, 3}, nil}}
)

// withFields are the figures of jobs with a field, beside those of jobs with none.
var withFields = []beside{
	{"with NotBefore, NotAfter, MaxRuns", "Fields/window", ""}, {"with Jitter", "Fields/jitter", ""}, {"with two Calendars", "Fields/calendars", ""},
	{"with Limits", "Fields/limits", ""}, {"of further jobs with After", "Fields/after", ""},
}

func inJitter(g *goal) []target { return []target{{size{10000, 6}, g}} }

func inLimits(g *goal) []target { return []target{{size{1000, 4}, g}} }

// costs are the rows of the table. A row's name is its line's.
var costs = []cost{
	{"Rest", "req/s", "requests/s at rest, pings included", nil, atRest},
	{"Rest", "pings/s", "pings/s among them", nil, atRest},
	{"Rest", "events/s", "events/s that the server sends at rest", nil, atRest},
	{"Rest", "sent-KB/s", "KB/s that the server sends at rest, answers to pings not included", nil, atRest},
	{"Rest", logged, "KB/s that the server logs at rest", nil, []target{{size{10000, 6}, most(25)}, {size{1000, 30}, most(12)}}},
	{"Rest", "watches/slot", "watches on the server for each slot", nil, []target{{size{10000, 6}, most(6)}}},
	{"Rest", "%instance-cpu", "% of a core of an instance at rest", nil, []target{{size{10000, 1}, most(1)}}},
	{"Memory", "heap-KB/job", "KB of heap for an owned idle job", alone("Memory"), []target{{size{10000, 1}, most(3)}}},
	{"Memory", "RSS-KB/job", "KB of RSS for an owned idle job", alone("Memory"), []target{{size{10000, 1}, most(6)}}},
	{"Each/singleworker", "us/run", "us of CPU per run at 1,000 runs/s: three processes, the server, and its database",
		peers("Each"), []target{{size{}, &goal{times: 0.8}}}},
	{"Each/singleworker", "p99-ms", "ms that these runs are late, p99", peers("Each"), []target{{size{}, nil}}},
	{"Runs", "events/s", "events/s that the server sends at 1,000 runs/s", nil, inRuns},
	{"Runs", "sent-KB/s", "KB/s that the server sends at 1,000 runs/s, answers to pings not included", nil, inRuns},
	{"Runs", "req/s", "requests/s at 1,000 runs/s, pings included", nil, inRuns},
	{"Runs", logged, "KB/s that the server logs at 1,000 runs/s", nil, inRuns},
	{"Ticks", "p99-ms", "ms that runs are late, p99, if all ticks are in one second", alone("Ticks"),
		[]target{{size{1000, 6}, &goal{times: 1, more: 15}}}},
	{"Jitter", "p99-uneven-%", "% by which runs in a second of a jitter of 10 s differ from an even share, p99 of seconds", nil, inJitter(most(15))},
	{"Jitter", "p99-ms", "ms that these runs are late, after the delay that swctl next shows, p99",
		[]beside{{"without jitter", "Jitter/none", ""}}, inJitter(most(20))},
	{"Jitter", "max-ms", "ms that the last of them is late", []beside{{"without jitter", "Jitter/none", ""}}, inJitter(most(20))},
	{"Fields", "req/run", "requests per run of jobs that are due every second, and at rest", withFields, inFields},
	{"Fields", "log-B/run", "bytes that the server logs for each of these runs, and at rest", withFields, inFields},
	{"Fields", "us-instances/run", "us of CPU of three processes for each of these runs", withFields, inFields},
	{"Fields", "us-server/run", "us of CPU of the server for each of these runs", withFields, inFields},
	{"Fields", "watches/slot", "watches on the server for each of these slots", withFields, inFields},
	{"Limits", "short-%", "% of the throughput of 40 places, with runs of 200 ms", nil, inLimits(&goal{more: 80, least: true})},
	{"Limits", "long-%", "% of it with runs of 5 s", nil, inLimits(&goal{more: 95, least: true})},
	{"Limits", "gap-ms", "ms from the end of a run of 50 ms to the begin of the next, of one place, median",
		[]beside{{"a round trip", "Limits", "trip-ms"}}, inLimits(&goal{times: 2, more: 5})},
	{"Limits", "further-req/run", "requests of a run beside its claim, its result and those at rest, if all jobs wait for ten places", nil,
		[]target{{size{1000, 4}, most(3)}, {size{1000, 30}, most(3)}}},
	{"Limits", "p99-ms", "ms that as many jobs without limits are late beside those that wait, p99",
		[]beside{{"alone", "Limits/alone", ""}}, inLimits(&goal{times: 1, more: 5})},
	{"Claims", "claims/s", "claims/s from the tick of all jobs to the begin of the last run", []beside{{"the same transactions alone", "Claims", "bare-claims/s"}},
		[]target{{size{10000, 1}, &goal{times: 0.4, least: true}}}},
	{"Over", "leases-lost", "leases lost while more ticks are due each second than can be claimed, for two minutes", nil, []target{{size{6000, 6}, most(0)}}},
	{"Over", "taken", "jobs taken from owners that live meanwhile", nil, []target{{size{6000, 6}, most(0)}}},
	{"Large", "rest-s", "s from the start of all until no slot changes hands, session 10 s", nil, []target{{size{50000, 6}, most(20)}, {size{30000, 10}, most(12)}}},
	{"Large", "moved", "slots that changed hands after shares were even", nil, []target{{size{30000, 10}, most(0)}}},
	{"Stop", "s", "s from SIGTERM to an owner of a sixth until all is owned", nil, []target{{size{10000, 6}, most(0.3)}}},
	{"Kill", "s-since-heard", "s from the last that a killed owner of a sixth sent until all is owned, session 4 s, server's tick 0.5 s", nil,
		[]target{{size{10000, 6}, most(4 + 0.5 + 0.3)}}},
	{"Kills/singleworker", "longest-pause-s", "nine jobs each second on three processes, of which one is killed: longest pause, s",
		peers("Kills"), []target{{size{}, nil}}},
	{"Kills/singleworker", "never", "ticks of these never run", peers("Kills"), []target{{size{}, most(0)}}},
	{"Kills/singleworker", "twice", "ticks of these run twice", peers("Kills"), []target{{size{}, most(0)}}},
	{"Crowd/singleworker", "longest-pause-s", "600 jobs each second, kills in phases of it, of jobs that had not begun: longest pause, s",
		peers("Crowd")[1:], []target{{size{}, &goal{times: 1, more: 0.4}}}},
	{"Crowd/singleworker", "lost", "ticks of these lost", peers("Crowd")[1:], []target{{size{}, most(0)}}},
	{"Crowd/singleworker", "twice", "ticks of these run twice", peers("Crowd")[1:], []target{{size{}, most(0)}}},
}

// costSizes are the groups of a row.
func costSizes(row string) (sizes []size) {
	for _, c := range costs {
		for _, to := range c.at {
			if strings.EqualFold(c.line, row) {
				sizes = append(sizes, to.size)
			}
		}
	}
	return sizes
}

// of is the name of a line of the group.
func (s size) of(line string) string {
	if s == (size{}) {
		return line
	}
	return line + "/" + s.String()
}

// costs prints the table. It fails the test if a row was measured that lacks a figure of the table.
func (r *results) costs(t *testing.T, p plan) {
	t.Helper()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ngroup\tfigure\tmeasured\tgoal\tbeside")
	for _, c := range costs {
		sizes := p[strings.ToLower(c.line)]
		targets := c.at
		if !*fullFlag && len(sizes) > 0 {
			targets = []target{{size: sizes[0]}}
		}
		for _, to := range targets {
			rows := r.cost(c, to)
			for _, row := range rows {
				fmt.Fprintln(table, strings.Join(row, "\t"))
			}
			if len(rows) == 0 && slices.Contains(sizes, to.size) {
				t.Errorf("nothing was measured of %s: %s", to.of(c.line), c.what)
			}
		}
	}
	_ = table.Flush()
}

// cost returns the cells of a figure, and of each part of it; none if it was not measured. A figure
// with a remark meets no goal: the remark stands there.
func (r *results) cost(c cost, to target) (rows [][]string) {
	value, ok := r.median(to.of(c.line), c.unit)
	if !ok {
		return nil
	}
	var others []string
	reference := 0.0
	for k, of := range c.beside {
		unit := cmp.Or(of.unit, c.unit)
		other, ok := r.median(to.of(of.line), unit)
		if !ok {
			other, ok = r.median(size{to.Jobs, 1}.of(of.line), unit)
		}
		if !ok {
			continue
		}
		others = append(others, of.name+" "+number(other))
		if k == 0 {
			reference = other
		}
	}
	group := "processes of package compare"
	if to.size != (size{}) {
		group = to.String()
	}
	all, verdict := r.row(to.of(c.line)), to.goal.judge(value, reference)
	if len(all.notes) > 0 {
		verdict = all.notes[0]
	}
	rows = [][]string{{group, c.what, number(value), verdict, strings.Join(others, ", ")}}
	for _, unit := range all.units {
		if part, is := strings.CutPrefix(unit, c.unit+":"); is {
			rows = append(rows, []string{"", "  of it " + part, number(all.median(unit)), "", ""})
		}
	}
	return rows
}

// judge gives the limit for a figure, and whether it is met.
func (g *goal) judge(value, reference float64) string {
	if g == nil || g.times != 0 && reference == 0 {
		return ""
	}
	limit := g.times*reference + g.more
	word, met := "at most", value <= limit
	if g.least {
		word, met = "at least", value >= limit
	}
	verdict := "missed"
	if met {
		verdict = "met"
	}
	return fmt.Sprintf("%s %s: %s", word, number(limit), verdict)
}
