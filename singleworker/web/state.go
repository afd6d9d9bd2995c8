package web

import (
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
)

// state is a word for how a job, an instance or a run is, with the class that colors it.
type state struct{ Word, Class string }

// The classes of states.
const (
	good = "good"
	bad  = "bad"
	warn = "warn" // somebody should look some day
	busy = "busy" // it runs
	off  = "off"  // it is meant not to
)

// health is the class of who has these conditions. The first one excuses those that follow.
func health(found []reason.Condition) string {
	switch {
	case len(found) == 0:
		return good
	case found[0].Severity == reason.Fine:
		return off
	case found[0].Severity == reason.Notice:
		return warn
	}
	return bad
}

func jobState(job admin.JobStatus) state { return state{words.Health(job), health(job.Conditions)} }

func instanceState(i admin.Instance, found []reason.Condition) state {
	s := state{i.State, health(found)}
	switch {
	case i.Leader:
		s.Word = "leader"
	case s.Class == good && i.State != admin.InstanceActive: // it stands by, or stops
		s.Class = off
	}
	return s
}

// runState is the state of a run, or of ticks that were not run.
func runState(of history.State) state {
	s := state{string(of), off}
	switch of {
	case history.StateOK:
		s.Class = good
	case history.StateFailed, history.StateTimedOut, history.StateLost, history.StateMissed, history.StateUnreadable:
		s.Class = bad
	case history.StateInterrupted, history.StateUnknown:
		s.Class = warn
	case history.StateRunning:
		s.Class = busy
	case history.StateRefused, history.StateSkipped, history.StateWaiting:
	}
	return s
}
