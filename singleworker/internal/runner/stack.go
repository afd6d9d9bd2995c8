package runner

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strings"
	"time"
)

// stuckAfter is how long handlers have to return after their context was canceled.
const stuckAfter = 5 * time.Second

// labelKey is the label of the goroutines of a slot's handler, which those inherit that it starts.
// Profiles show it.
const labelKey = "singleworker_job"

// labeled is a context that has the label of a job.
func labeled(name string) context.Context {
	return pprof.WithLabels(context.Background(), pprof.Labels(labelKey, name))
}

// lookStopped keeps the stack of a run that was told to stop a while ago, and is still in its
// handler.
func (r *runs) lookStopped(act *activity) {
	name := act.run.Job
	if r.byJob[name] != act || !act.handling.Load() {
		return
	}
	if text := stackOf(name); text != "" {
		r.cfg.Logger.Warn("run does not end although its context was canceled", "job", name, "run_id", act.run.RunID, "stack", text)
		r.cfg.Keeper.Stack(name, act.run.RunID, text)
	}
}

// frame is a line of a stack in a profile of goroutines.
var frame = regexp.MustCompile(`(?m)^#\t0x[0-9a-f]+\t(\S+)\+0x[0-9a-f]+\s+(\S+)$`)

// begun is the function below which a stack is this package's own.
const begun = "runner.(*execution).begin"

// stackOf is where the goroutines with the label of a job are, the handler's first.
func stackOf(name string) string {
	var profile bytes.Buffer
	if pprof.Lookup("goroutine").WriteTo(&profile, 1) != nil { // a buffer takes everything
		return ""
	}
	label := fmt.Sprintf("%q:%q", labelKey, name)
	var own, others []string
	for block := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(block, "# labels: {") || !strings.Contains(block, label) {
			continue
		}
		var lines []string
		at := &others
		for _, f := range frame.FindAllStringSubmatch(block, -1) {
			if strings.HasSuffix(f[1], begun) {
				at = &own
				break
			}
			lines = append(lines, f[1]+" "+f[2])
		}
		*at = append(*at, strings.Join(lines, "\n"))
	}
	return strings.Join(append(own, others...), "\n\n")
}
