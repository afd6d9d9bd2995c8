package swtest

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// patience is how long virtual time may stand still, in real time, until a goroutine that waits for
// something real is to blame.
const patience = 2 * time.Second

// play runs a scenario in a bubble.
func (x *explorer) play(seed uint64, faults []Fault) played {
	x.t.Helper()
	x.plays++
	out := reality{bubble: make(chan string, 1), hung: make(chan error, 1), never: make(chan struct{})}
	tb, begun, ended := new(recorder), make(chan *World, 1), make(chan struct{})
	go func() {
		defer close(ended)
		synctest.Test(x.t, func(*testing.T) {
			w := newWorld(tb, out, seed, x.plan, faults)
			out.bubble <- header()
			begun <- w
			w.judge(tb, faults)
		})
	}()
	world := <-begun
	if err := world.watch(ended, x.patience); err != nil {
		x.fail(err)
		return played{}
	}
	result := played{hits: world.hits}
	if found := slices.Concat(world.Effects.found, tb.found); len(found) > 0 {
		runs := world.lastRuns()
		result.failure = &Failure{Text: found[0].text, Seed: seed, Faults: world.struck, Story: world.story, Runs: runs, rule: found[0].rule}
	}
	return result
}

// judge plays a scenario and adds the violations to the recorder.
func (w *World) judge(tb *recorder, faults []Fault) {
	done := make(chan struct{})
	go w.beat(done)
	defer close(done)
	defer func() {
		for _, f := range slices.Backward(tb.cleanups) {
			f()
		}
	}()
	defer func() {
		if r := recover(); r != nil && r != any(fatal{}) {
			panic(r)
		}
	}()
	w.play(faults)
	if w.plan.Check == nil {
		return
	}
	if err := w.plan.Check(w); err != nil {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		tb.found = append(tb.found, finding{"check", err.Error()})
	}
}

// beat shows that virtual time passes.
func (w *World) beat(done chan struct{}) {
	tick := time.NewTicker(w.plan.SessionTimeout)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.beats.Add(1)
		case <-done:
			return
		}
	}
}

// watch returns when a scenario has ended, or with an error when a goroutine of it waits for
// something real, for which time in the bubble stands still.
func (w *World) watch(ended chan struct{}, patience time.Duration) error {
	bubble := <-w.bubble
	tick := time.NewTicker(patience / 2)
	defer tick.Stop()
	beats, since, last := w.beats.Load(), time.Now(), ""
	for {
		select {
		case <-ended:
			return nil
		case err := <-w.hung:
			return err
		case <-tick.C:
		}
		if now := w.beats.Load(); now != beats {
			beats, since, last = now, time.Now(), ""
			continue
		}
		if time.Since(since) < patience {
			continue
		}
		text := realWait(stacks(), bubble)
		if text != "" && text == last {
			return fmt.Errorf("swtest: virtual time stands still: %s%w", text, errReal)
		}
		last = text
	}
}

var errReal = errors.New("\nHandlers under Explore must not do real I/O: give them a fake, or a net.Pipe that is made in Plan.Outside")

var (
	headers = regexp.MustCompile(`^goroutine \d+ \[([^\],]*)[^\]]*(synctest bubble \d+)[^\]]*\]:$`)
	source  = regexp.MustCompile(`^\t(.*:\d+)`)
)

// header is the bubble of the calling goroutine, such as "synctest bubble 7".
func header() string {
	b := make([]byte, 200)
	line, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), "\n")
	if m := headers.FindStringSubmatch(line); m != nil {
		return m[2]
	}
	return ""
}

// stacks are the stacks of all goroutines.
func stacks() string {
	for size := 1 << 20; ; size *= 2 {
		b := make([]byte, size)
		if n := runtime.Stack(b, true); n < size {
			return string(b[:n])
		}
	}
}

// realWait describes a goroutine of a bubble that waits for something outside of it, or returns "".
func realWait(stacks, bubble string) string {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		lines := strings.Split(strings.TrimSpace(stack), "\n")
		m := headers.FindStringSubmatch(lines[0])
		if m == nil || m[2] != bubble || strings.HasSuffix(m[1], "(durable)") || m[1] == "running" || m[1] == "runnable" {
			continue
		}
		return fmt.Sprintf("a goroutine is in %q\n%s", m[1], strings.Join(calls(lines[1:]), "\n"))
	}
	return ""
}

// calls are the calls of a stack up to the handler, without the runtime's.
func calls(lines []string) (told []string) {
	for k := 0; k+1 < len(lines); k += 2 {
		name := lines[k]
		if cut := strings.LastIndex(name, "("); cut > 0 && !strings.HasPrefix(name, "created by") {
			name = name[:cut]
		}
		if strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "internal/") {
			continue
		}
		if strings.Contains(name, "/swtest.(*process).wraps") {
			break
		}
		at := ""
		if m := source.FindStringSubmatch(lines[k+1]); m != nil {
			at = m[1]
		}
		told = append(told, "\t"+name+" "+at)
	}
	return told
}
