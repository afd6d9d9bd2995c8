package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// chart draws how long runs took, the oldest at the left.
type chart struct {
	Width, Height int
	Bars          []bar
	Longest       string
	Median        string
	Text          string // for those who do not see it
}

// bar is a run. Failed ones are marked by a cross above them, not by their color alone.
type bar struct {
	X, Y, W, H int
	State      history.State
	Text       string
	Cross      string // a path, or "" if the run went well
}

const (
	chartHeight = 80
	barWidth    = 10
	barGap      = 4
	maxBars     = 60
)

func chartOf(entries []runlog.Entry, now time.Time) chart {
	var runs []history.Run
	for _, e := range entries {
		if end := endOf(e.Run, now); e.RunID != "" && !e.Started.IsZero() && !end.Before(e.Started) && len(runs) < maxBars {
			runs = append(runs, e.Run)
		}
	}
	slices.Reverse(runs)
	var took []time.Duration
	for _, e := range runs {
		took = append(took, endOf(e, now).Sub(e.Started))
	}
	if len(took) == 0 {
		return chart{}
	}
	sorted := slices.Sorted(slices.Values(took))
	longest := max(sorted[len(sorted)-1], time.Millisecond)
	const head = 14 // room for the crosses
	c := chart{
		Width: len(runs)*(barWidth+barGap) + barGap, Height: chartHeight + head, Longest: plain.Span(longest), Median: plain.Span(sorted[len(sorted)/2]),
	}
	for i, e := range runs {
		tall := max(2, int(int64(chartHeight)*int64(took[i])/int64(longest)))
		b := bar{
			X: barGap + i*(barWidth+barGap), Y: head + chartHeight - tall, W: barWidth, H: tall, State: e.State,
			Text: fmt.Sprintf("%s: %s after %s on %s", plain.Absolute(e.Tick, time.UTC), e.State, plain.Span(took[i]), e.InstanceID),
		}
		if e.State != history.StateOK && e.State != history.StateRunning {
			b.Cross = fmt.Sprintf("M%d %dl8 8m0-8l-8 8", b.X+1, b.Y-11)
		}
		c.Bars = append(c.Bars, b)
	}
	c.Text = strings.Join([]string{counted(len(runs), "run"), "median " + c.Median, "longest " + c.Longest}, ", ")
	return c
}
