package bench

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	fullFlag    = flag.Bool("bench.full", false, "large groups, measured for long; default: a small one")
	rowsFlag    = flag.String("bench.rows", "", "the rows to measure, such as rest,start; default: all")
	sizesFlag   = flag.String("bench.sizes", "", "the groups to measure, such as 30x3,1000x6 (jobs x instances); default: those of each row")
	countFlag   = flag.Int("bench.count", 1, "how often to measure everything")
	costFlag    = flag.Bool("bench.cost", false, "measure what the table of costs has, at the sizes that it has; with -bench.full")
	besideFlag  = flag.String("bench.beside", "", "`file` with what package compare has printed, for the table of costs")
	windowFlag  = flag.Duration("bench.window", 2*time.Minute, "how long to measure what happens all the time, with -bench.full")
	limitFlag   = flag.Duration("bench.limit", time.Minute, "how long to wait for a group")
	sessionFlag = flag.Duration("bench.session", 4*time.Second, "session timeout of the instances")
)

// size is a group's.
type size struct{ Jobs, Instances int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.Jobs, s.Instances) }

// fullSizes are the rows, with the sizes that a full measurement has of each.
var fullSizes = map[string][]size{
	"rest":   {{30, 3}, {30, 6}, {100, 6}, {1000, 6}, {10000, 1}, {10000, 6}, {1000, 30}},
	"start":  {{1000, 1}, {10000, 1}, {1000, 6}, {1000, 30}, {10000, 6}},
	"large":  {{50000, 6}, {30000, 10}},
	"stop":   {{1000, 6}, {10000, 6}},
	"join":   {{1000, 6}, {10000, 6}},
	"kill":   {{1000, 6}, {10000, 6}},
	"memory": {{1000, 1}, {10000, 1}},
	"list":   {{1000, 6}, {10000, 1}, {10000, 6}},
	"pages":  {{1000, 6}, {10000, 6}},
	"ticks":  {{1000, 6}, {10000, 6}},
	"over":   {{6000, 6}},
	"claims": {{1000, 1}, {10000, 1}},
	"runs":   {{1000, 6}, {1000, 30}},
	"crash":  {{30, 3}, {100, 6}},
	"hang":   {{30, 3}, {100, 6}},
	"cut":    {{30, 3}, {100, 6}},
	"jitter": {{10000, 6}},
	"fields": {{200, 3}},
	"limits": {{1000, 4}, {1000, 30}},
}

// A small measurement has one size of each row.
var (
	small  = []size{{30, 3}}
	single = []size{{30, 1}} // what one instance needs, and can
)

// A plan is the sizes to measure in each row.
type plan map[string][]size

func newPlan(t *testing.T) plan {
	t.Helper()
	p := make(plan)
	for name, sizes := range fullSizes {
		switch {
		case *fullFlag && *costFlag:
			if sizes := costSizes(name); len(sizes) > 0 {
				p[name] = sizes
			}
		case *fullFlag:
			p[name] = sizes
		case name == "memory" || name == "claims":
			p[name] = single
		default:
			p[name] = small
		}
	}
	if *sizesFlag != "" {
		var sizes []size
		for text := range strings.SplitSeq(*sizesFlag, ",") {
			var s size
			if _, err := fmt.Sscanf(text, "%dx%d", &s.Jobs, &s.Instances); err != nil || s.Jobs < 1 || s.Instances < 1 {
				t.Fatalf("-bench.sizes: %q is not a size; want jobs x instances, such as 1000x6", text)
			}
			sizes = append(sizes, s)
		}
		for name := range p {
			p[name] = sizes
		}
	}
	if *rowsFlag != "" {
		all := p
		p = make(plan)
		for name := range strings.SplitSeq(*rowsFlag, ",") {
			if all[name] == nil {
				t.Fatalf("-bench.rows: there is no row %q", name)
			}
			p[name] = all[name]
		}
	}
	return p
}

// sizes are the rows' sizes, the smallest first.
func (p plan) sizes(rows ...string) (all []size) {
	for _, name := range rows {
		all = append(all, p[name]...)
	}
	slices.SortFunc(all, func(a, b size) int { return cmp.Or(a.Jobs*a.Instances-b.Jobs*b.Instances, a.Jobs-b.Jobs) })
	return slices.Compact(all)
}

// bench is the measurement of one group.
type bench struct {
	size
	plan
	*results

	t *testing.T

	programs string        // directory
	session  time.Duration // of the instances
	bare     time.Duration // how long to claim with nothing around it
	limit    time.Duration // for a group to come to what is waited for
	settle   time.Duration // between what is measured
	window   time.Duration // how long to measure what happens all the time
	long     time.Duration // of a run that takes long
	period   time.Duration // of ticks
	bursts   int           // of ticks
	moves    int           // stops and joins of instances, in turn
	kills    int           // of instances whose jobs are due every second
	proxied  bool          // each instance has a proxy on its way to the server
}

// wants reports whether any of the rows is to be measured.
func (b *bench) wants(rows ...string) bool { return slices.Contains(b.sizes(rows...), b.size) }

func (b *bench) program(name string) string { return filepath.Join(b.programs, name) }

// TestBench measures the requested rows and prints them. It fails if something cannot be measured,
// not if it is slow.
func TestBench(t *testing.T) {
	if useMemory() {
		t.Setenv("TMPDIR", memory)
	}
	p, all, programs := newPlan(t), new(results), build(t)
	if *besideFlag != "" {
		text, err := os.ReadFile(*besideFlag)
		if err == nil {
			err = all.read(bytes.NewReader(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(kind string, s size, measure func(*bench)) {
		t.Run(kind+"/"+s.String(), func(t *testing.T) {
			b := &bench{
				size: s, plan: p, results: all, t: t, programs: programs, session: *sessionFlag, limit: *limitFlag,
				settle: 2 * time.Second, window: 3 * time.Second, long: time.Second, bare: time.Second, period: 5 * time.Second, bursts: 1, moves: 1, kills: 1,
			}
			if *fullFlag {
				b.settle, b.window, b.long, b.bare, b.period, b.bursts, b.moves, b.kills = 10*time.Second, *windowFlag, 5*time.Second, 3*time.Second, 20*time.Second, 3, 4, 20
			}
			measure(b)
		})
	}
	for range *countFlag {
		for _, s := range p.sizes("start", "rest", "memory", "list", "pages", "stop", "join", "kill") {
			run("life", s, (*bench).life)
		}
		for _, s := range p.sizes("large") {
			run("large", s, func(b *bench) {
				b.session = max(b.session, largeSession)
				b.start("Large")
			})
		}
		for _, s := range p.sizes("ticks", "claims") {
			run("ticks", s, func(b *bench) { b.burst("Ticks") })
		}
		for _, name := range []string{"Runs", "Over"} {
			for _, s := range p.sizes(strings.ToLower(name)) {
				run(strings.ToLower(name), s, func(b *bench) {
					b.period = time.Second
					b.bursts = int(b.window / b.period)
					b.burst(name)
				})
			}
		}
		for _, s := range p.sizes("crash") {
			run("crash", s, func(b *bench) { b.crash("Crash", killed) })
		}
		for _, s := range p.sizes("hang") {
			run("hang", s, func(b *bench) { b.crash("Hang", stopped) })
		}
		for _, s := range p.sizes("cut") {
			run("cut", s, func(b *bench) {
				b.proxied = true
				b.crash("Cut", cut)
			})
		}
		for _, s := range p.sizes("jitter") {
			run("jitter", s, (*bench).jitter)
		}
		for _, s := range p.sizes("fields") {
			run("fields", s, (*bench).fields)
		}
		for _, s := range p.sizes("limits") {
			run("limits", s, (*bench).limits)
		}
	}
	all.table()
	if !*fullFlag || *costFlag {
		all.costs(t, p)
	}
}

// largeSession is the session timeout of a group with so many jobs that its server needs seconds to
// begin.
const largeSession = 10 * time.Second

// memory is where tmpfs is on Linux.
const memory = "/dev/shm"

// useMemory reports whether files can be created there.
func useMemory() bool {
	file, err := os.CreateTemp(memory, "bench-")
	if err != nil {
		return false
	}
	_ = file.Close()
	return os.Remove(file.Name()) == nil
}

// build builds the instance and swctl, and returns their directory.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./instance", "../../cmd/swctl").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}
