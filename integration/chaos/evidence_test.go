package chaos

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker/swtest/txns"
)

// Evidence is a run's traces: processes' lines, servers' logs, and the faults. Times that are
// durations are by the machine's monotonic clock.
type evidence struct {
	*txns.Log // what servers logged, by their clock

	clock        wallToMono
	Began, Ended time.Duration
	Deeds        []*deed
	Servers      int
	Processes    []*process // in the order of their starts

	Lines map[*process][]Line
	Runs  []*handlerRun
}

// A handlerRun is a call of a handler, as its process wrote it down.
type handlerRun struct {
	Line // its beginning

	By  *process
	End time.Duration // 0 if it never ended
}

// A violation is a promise that was not kept.
type violation struct {
	Rule string
	At   time.Duration
	Slot string
	Text string
}

func (v violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Rule, v.Slot, v.Text) }

// wallToMono converts times of the machine's wall clock, such as the servers', to its monotonic
// clock.
type wallToMono struct{ offset time.Duration }

// newWallToMono reads both clocks. A busy machine may stop the process between two readings; so the
// shortest of some counts.
func newWallToMono() (w wallToMono) {
	shortest := time.Duration(math.MaxInt64)
	for range 100 {
		before := Mono()
		wall := time.Duration(time.Now().UnixNano())
		if took := Mono() - before; took < shortest {
			shortest, w.offset = took, wall-before
		}
	}
	return w
}

func (w wallToMono) mono(t time.Time) time.Duration { return time.Duration(t.UnixNano()) - w.offset }

func (w wallToMono) monoOf(ms int64) time.Duration { return w.mono(time.UnixMilli(ms)) }

// time is the machine's wall clock at a time of the monotonic one.
func (w wallToMono) time(mono time.Duration) time.Time { return time.Unix(0, int64(mono+w.offset)) }

// readLedgers reads the files that processes wrote.
func (e *evidence) readLedgers() error {
	e.Lines = make(map[*process][]Line)
	for _, p := range e.Processes {
		lines, err := ReadLedger(p.Ledger)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was killed before it wrote anything
		}
		if err != nil {
			return err
		}
		e.add(p, lines)
	}
	slices.SortStableFunc(e.Runs, func(a, b *handlerRun) int { return int(a.Mono - b.Mono) })
	return nil
}

func (e *evidence) add(p *process, lines []Line) {
	e.Lines[p] = lines
	open := make(map[string]*handlerRun)
	for _, line := range lines {
		switch line.Event {
		case Start:
			run := &handlerRun{Line: line, By: p}
			open[line.Run] = run
			e.Runs = append(e.Runs, run)
		case End:
			if run := open[line.Run]; run != nil {
				run.End = line.Mono
			}
		default:
		}
	}
}

var logged = regexp.MustCompile(`level=((?:WARN|ERROR) msg=(?:"(?:[^"\\]|\\.)*"|\S+))`)

// complaints counts the warnings and errors that processes have logged.
func (e *evidence) complaints() (lines []string) {
	counts := make(map[string]int)
	for _, p := range e.Processes {
		text, _ := os.ReadFile(p.Ledger + ".log") // a process that never ran has none
		for _, found := range logged.FindAllSubmatch(text, -1) {
			counts[string(found[1])]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%5d  %s", counts[what], what))
	}
	return lines
}

func logDirs(ensemble *zkserver.Ensemble) (dirs []string) {
	for _, s := range ensemble.Servers() {
		dirs = append(dirs, s.LogDir())
	}
	return dirs
}

// readLogs reads the servers' logs, each time that their data was replaced and in the end. They
// must have the same clock as this process.
func (e *evidence) readLogs(times [][]string) error {
	log, err := txns.ReadRestored(groupName, times...)
	if err == nil {
		e.Log = log
	}
	return err
}
