package admin

import (
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// node is one that may be missing.
type node struct {
	path string
	data []byte
	stat zkconn.Stat
	here bool
}

func nodeOf(path string, result zkconn.ReadResult) node {
	return node{path, result.Data, result.Stat, result.Err == nil}
}

// write is what gives the node other data, unless it has changed.
func (n node) write(data []byte) zkconn.Op {
	if n.here {
		return zkconn.SetOp(n.path, data, n.stat.Version)
	}
	return zkconn.CreateOp(n.path, data)
}

// turned reads a job's switch.
func (n node) turned() (zkrec.Switch, error) {
	turned, err := zkrec.ParseSwitch(n.data)
	if err != nil {
		return zkrec.Switch{}, &zkrec.UnreadableError{Path: n.path, Err: err}
	}
	return turned.WrittenAt(n.stat.Mtime), nil
}

// parsed is a spec with its switch and its schedule, or the error of parsing it. An
// *invalid.FieldError means that the record can be read, but the job can never run.
type parsed struct {
	group     string        // whose job it is
	frozen    []zkrec.Pause // the group, without this job
	spec      zkrec.Spec
	schedule  *cronexpr.Schedule
	err       error
	turnedErr error // why the switch cannot be read; it counts as one that nobody has touched
	declared  bool  // the spec is as declared in code
}

// isUnreadable reports whether the spec cannot be read, also by who would change it.
func (of parsed) isUnreadable() bool {
	return of.err != nil && !errors.As(of.err, new(*invalid.FieldError))
}

// writtenAt is a spec with its switch as both are read when they were written at that time.
func writtenAt(spec zkrec.Spec, at time.Time) zkrec.Spec {
	return spec.WrittenAt(at).With(spec.Switch.WrittenAt(at))
}

// parse reads the spec and the switch.
func (r records) parse() (of parsed) {
	if of.spec, of.err = zkrec.ParseSpec(zkrec.JobOfSlot(r.slot), r.spec); of.err != nil {
		return of
	}
	var turned zkrec.Switch
	turned, of.turnedErr = r.register.turned()
	of.spec = r.basis.Into(of.spec.WrittenAt(r.stat.Mtime).With(turned))
	of.frozen = r.freeze.Of(zkrec.JobOfSlot(r.slot))
	of.declared = of.spec.Declared != "" && !of.spec.Overridden()
	if of.err = of.spec.Check(); of.err == nil {
		of.schedule, of.err = of.spec.Job.ParseSchedule()
	}
	if of.err == nil {
		of.err = r.basis.limits.Refuse(of.spec.Job)
	}
	return of
}
