package words

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/history"
)

// around says how the whole group, or the whole job, was or is.
func (w *writer) around() {
	if w.Outage != nil {
		w.sayf("%s.", Outage(*w.Outage, w.zone))
	}
	p, soFar := w.Job.Paused, w.Pause != nil
	if p != nil && !soFar && !w.Asked.Before(p.Since) && (p.Until.IsZero() || w.Asked.Before(p.Until)) {
		w.sayf("The job is paused%s: ticks in that time do not run.", w.pause(p))
	}
	if f := w.Job.Frozen; f != nil && w.Freeze == nil && !w.Asked.Before(f.Since) && (f.Until.IsZero() || w.Asked.Before(f.Until)) {
		w.sayf("The group is frozen%s: ticks in that time do not run.", w.pause(f))
	}
	switch l := w.Leader; {
	case l == nil:
	case l.Instance:
		w.sayf("%s leads the group (latch mode), so it owns all jobs.", l.ID)
	default:
		w.sayf("%q leads (latch mode), and is no instance of this group, but another program that contends at %s: no instance owns a job until it ends.", l.ID, path.Dir(l.Node))
	}
}

// withheld says because of which pause, or freeze, a tick did not run.
func (w *writer) withheld(name string, why history.Reason) {
	if why == history.ReasonFrozen {
		w.sayf("%s did not run: the group was frozen%s.", name, w.pause(w.Freeze))
	} else {
		w.sayf("%s did not run: the job was paused%s.", name, w.pause(w.Pause))
	}
}

// Outage is "ZooKeeper did not answer app-1, app-2 from 13:54:20 to 13:55:19 (59s)", with the
// dates.
func Outage(o admin.Outage, zone *time.Location) string {
	return fmt.Sprintf("ZooKeeper did not answer %s from %s to %s (%s)", strings.Join(o.Instances, ", "),
		plain.Absolute(o.Since, zone), plain.Absolute(o.Until, zone), plain.Span(o.Until.Sub(o.Since)))
}

// asked says who has asked for a run, and for its end.
func (w *writer) asked(last history.Entry) {
	if last.AskedBy != "" {
		w.sayf("It was asked for%s.", strings.TrimRight(By(last.AskedBy, last.AskedReason), "."))
	}
	if w.Stop != nil {
		w.sayf("Its end was asked for %s.", StopAsked(w.Job, *w.Stop, w.At))
	}
	if w.Stack != "" {
		frames := strings.Split(w.Stack, "\n")
		w.sayf("Some seconds after that its handler was at %s.", strings.Join(frames[:min(len(frames), 3)], ", called by "))
	}
	if last.StoppedBy != "" {
		w.sayf("Its end was asked for%s.", strings.TrimRight(By(last.StoppedBy, last.StoppedReason), "."))
	}
}

// gone says why the instance of a run will not record its result.
func (w *writer) gone(run history.Run) string {
	switch owner := w.Job.Owner; {
	case owner != nil && owner.Token != run.Token:
		return fmt.Sprintf("no longer owns %s, which %s took over at %s", w.thing(), owner.InstanceID, w.at(owner.Since))
	case owner == nil:
		return "no longer owns " + w.thing()
	}
	return "is gone"
}
