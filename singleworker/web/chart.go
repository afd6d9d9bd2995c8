package web

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// chart draws how long runs took, the latest at the right.
type chart struct {
	Width, Height int
	Bars          []bar
	Scale         []string // lengths of time, from the top of the tallest bar down
	Text          string   // for those who do not see it
}

// bar is a run. Failed ones are marked by a cross above them, not by their color alone.
type bar struct {
	X, Y, W, H  int
	Class, Text string
	Cross       string // a path, or "" if the run went well
}

const (
	chartHeight = 80
	chartHead   = 14 // room for the crosses
	barWidth    = 10
	barGap      = 4
	// A chart has room for fewBars at least, so that one run is no wall, and for maxBars at most.
	fewBars = 40
	maxBars = 60
)

func chartOf(entries []runlog.Entry, l look) chart {
	var runs []history.Run
	for _, e := range entries {
		if end := endOf(e.Run, l.now); e.RunID != "" && !e.Started.IsZero() && !end.Before(e.Started) && len(runs) < maxBars {
			runs = append(runs, e.Run)
		}
	}
	if len(runs) == 0 {
		return chart{}
	}
	slices.Reverse(runs)
	var ended []time.Duration
	longest := time.Duration(1)
	for _, e := range runs {
		took := endOf(e, l.now).Sub(e.Started)
		if longest = max(longest, took); e.State != history.StateRunning {
			ended = append(ended, took)
		}
	}
	top := rounded(longest)
	room := max(len(runs), fewBars)
	c := chart{Width: room*(barWidth+barGap) + barGap, Height: chartHeight + chartHead, Scale: []string{plain.Exact(top), plain.Exact(top / 2), "0"}} //nolint:mnd // the middle
	for i, e := range runs {
		took := endOf(e, l.now).Sub(e.Started)
		tall := max(2, int(chartHeight*took.Seconds()/top.Seconds())) //nolint:mnd // else it is not seen
		b := bar{
			X: barGap + (room-len(runs)+i)*(barWidth+barGap), Y: chartHead + chartHeight - tall, W: barWidth, H: tall, Class: runState(e.State).Class,
			Text: fmt.Sprintf("%s: %s after %s on %s", plain.Absolute(e.Tick, l.zone), e.State, plain.Span(took), e.InstanceID),
		}
		if b.Class == bad || b.Class == warn {
			b.Cross = fmt.Sprintf("M%d %dl8 8m0-8l-8 8", b.X+1, b.Y-11)
		}
		c.Bars = append(c.Bars, b)
	}
	if c.Text = "one is in progress"; len(ended) > 0 {
		slices.Sort(ended)
		c.Text = counted(len(ended), "run") + ", median " + plain.Span(ended[len(ended)/2]) + ", longest " + plain.Span(ended[len(ended)-1])
	}
	return c
}

// strip draws how the latest entries of a job went, the last at the right: failures are tall, and
// ticks that did not run are dots.
type strip struct {
	Text  string
	Paths []timePath
}

func stripOf(entries []history.Entry) (s strip) {
	const (
		most  = 12
		apart = 5
	)
	shapes := map[string]string{good: "M%d 7v7", bad: "M%d 0v14", warn: "M%d 3v11", busy: "M%d 3v11", off: "M%d 12v2"}
	paths, counts := make(map[string]string), make(map[string]int)
	for i, e := range entries[:min(len(entries), most)] {
		of := runState(e.State)
		paths[of.Class] += fmt.Sprintf(shapes[of.Class], (most-i)*apart-2) //nolint:mnd // the middle of its place
		counts[of.Word]++
	}
	for _, class := range slices.Sorted(maps.Keys(paths)) {
		s.Paths = append(s.Paths, timePath{class, paths[class]})
	}
	s.Text = strings.Join(tally(counts), ", ")
	return s
}

// tally is "1 failed", "3 ok".
func tally[K ~string](counts map[K]int) (parts []string) {
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	return parts
}
