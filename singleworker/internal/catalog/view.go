package catalog

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// view is one reading of a job's spec, switch and registrations, and of the list of its shards.
type view struct {
	spec     *zkrec.Spec // nil if the node was not read
	specErr  error       // why it, the switch, or the record of complete ticks, cannot be read
	ticks    *ticks.Job
	ticksErr error // why it can never run
	stamp    stamp
	own      bool // this instance is registered

	lacksRegister bool     // the node is to be created
	registered    []string // all registrations, if they were listed
	shards        shards
	err           error
}

// stamp tells readings of a job's spec and switch apart. A server that was restored from a backup,
// or emptied, counts transactions and versions again: only the times at which the nodes were
// written tell two of the same numbers apart.
type stamp struct {
	Created int64 // the transaction that has created the job
	Version ticks.Version

	specAt, turnedAt int64 // when the spec and the switch were written, by ZooKeeper's time, in Unix milliseconds
}

// stampOf is the stamp of a reading. A job that lacks its register node, which is to be created,
// has the stamp of one that was just made.
func stampOf(spec, register zkconn.ReadResult) stamp {
	of := stamp{Created: spec.Stat.Czxid, Version: ticks.Version{Spec: spec.Stat.Version}, specAt: spec.Stat.Mtime.UnixMilli()}
	if register.Err == nil {
		of.Version.Switch, of.turnedAt = register.Stat.Version, register.Stat.Mtime.UnixMilli()
	}
	return of
}

// parsed is a spec and a switch that need not be parsed again, if ticks is set.
type parsed struct {
	stamp
	spec  *zkrec.Spec
	ticks *ticks.Job
}

func (j *Job) parsed() parsed {
	if j.stripped {
		return parsed{}
	}
	of := j.stamp
	of.Version.Named, of.Version.Freeze = "", 0 // they are read by themselves
	return parsed{of, j.Spec, j.Ticks}
}

// dropPayload forgets the fields that only runs and people need: others run the job, and it is read
// again when this instance may.
func (j *Job) dropPayload() {
	of := j.Spec.Job
	if of.Args == nil && of.Payload == nil && of.Labels == nil && of.Description == "" {
		return
	}
	spec := *j.Spec
	spec.Job.Args, spec.Job.Payload, spec.Job.Labels, spec.Job.Description = nil, nil, nil, ""
	j.Spec = &spec
	if j.Valid() {
		parsed := *j.Ticks
		parsed.Policy = &spec.Job
		j.Ticks = &parsed
	}
}

// readsPerJob is how many reads readsOf lists, without the list of registrations.
const readsPerJob = 3

// readsOf lists the reads of a job: its spec and its switch, of whose changes a signal tells, and
// this instance's registration. If list, all registrations are listed, and watched.
func readsOf(tree zkrec.Tree, name, self string, list bool) []zkconn.Read {
	reads := []zkconn.Read{{Path: tree.Job(name)}, {Path: tree.Register(name)}, {Path: tree.Registration(name, self)}}
	if list {
		reads = append(reads, zkconn.Read{Path: tree.Register(name), Children: true, Watch: true})
	}
	return reads
}

// viewOf interprets the results of readsOf.
func viewOf(tree zkrec.Tree, name string, results []zkconn.ReadResult, known parsed) (v view) {
	spec, register, own := results[0], results[1], results[2]
	if v.err = spec.Err; v.err != nil {
		return v
	}
	if zkconn.IsUnknown(register.Err) {
		v.err = register.Err
		return v
	}
	if v.stamp = stampOf(spec, register); known.ticks != nil && known.stamp == v.stamp && register.Err == nil {
		v.spec, v.ticks = known.spec, known.ticks
	} else {
		v.parse(tree, name, spec, register)
	}
	v.own, v.lacksRegister = own.Err == nil, errors.Is(register.Err, zkconn.ErrNoNode)
	errs := []error{own.Err}
	if len(results) > readsPerJob {
		v.registered = results[readsPerJob].Names
		errs = append(errs, results[readsPerJob].Err)
		slices.Sort(v.registered)
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, zkconn.ErrNoNode) { // what is missing is created when this instance registers
			v.err = err
		}
	}
	return v
}

// parse takes in the data of the job's node, and of its register node.
func (v *view) parse(tree zkrec.Tree, name string, spec, register zkconn.ReadResult) {
	job, err := zkrec.ParseSpec(name, spec.Data)
	if err == nil {
		err = job.ActiveLayout().Check() // no version writes such a layout: its slots cannot be listed
	}
	turned, turnedErr := zkrec.ParseSwitch(register.Data)
	if register.Err != nil && !errors.Is(register.Err, zkconn.ErrNoNode) {
		turnedErr = register.Err
	}
	job = job.WrittenAt(spec.Stat.Mtime).With(turned.WrittenAt(register.Stat.Mtime))
	v.spec, v.specErr = &job, cmp.Or(session.ReadError(tree.Job(name), err), session.ReadError(tree.Register(name), turnedErr))
	if v.specErr != nil || v.isPart() { // see complete
		return
	}
	if parsed, err := ticks.JobOf(tree.Group(), v.spec, v.stamp.Version); err != nil {
		v.ticksErr = err
	} else {
		v.ticks = &parsed
	}
}

// written is when the spec was last written, or the switch if anything depends on when it was.
func (v *view) written() int64 {
	if v.spec.Switch.Paused == nil {
		return v.stamp.specAt
	}
	return max(v.stamp.specAt, v.stamp.turnedAt)
}

// schemaOf is the schema of a spec, also of one that cannot be read because of it.
func schemaOf(spec *zkrec.Spec, err error, path string) int {
	unreadable, newer := new(zkrec.UnreadableError), new(zkrec.SchemaError)
	if errors.As(err, &unreadable) && unreadable.Path == path && errors.As(err, &newer) {
		return newer.Found
	}
	return spec.Schema()
}

// sharded reports whether there may be nodes of shards, or of this instance's slot.
func (v *view) sharded() bool {
	return v.err == nil && (v.spec.Job.Shards > 0 || v.spec.Layout != nil || v.spec.Job.Everywhere)
}

// fetchShards completes the view of a sharded job, or of one that runs on every instance, beside
// the loop.
func (v *view) fetchShards(ctx context.Context, l *session.Loop, name, self string) {
	if v.spec.Job.Everywhere {
		own := zkrec.InstanceSlot(name, self)
		var found bool
		if _, found, v.err = l.Conn.Exists(ctx, l.Tree.Slot(own)); found {
			v.shards.list = []string{own}
		}
		return
	}
	if v.shards, v.err = fetchShards(ctx, l, name); errors.As(v.err, new(*zkrec.UnreadableError)) {
		v.specErr, v.err = v.err, nil
	}
}

// viewAll reads many jobs beside the loop.
func viewAll(ctx context.Context, l *session.Loop, names []string, self string) ([]view, error) {
	reads := make([]zkconn.Read, 0, readsPerJob*len(names))
	for _, name := range names {
		reads = append(reads, readsOf(l.Tree, name, self, false)...)
	}
	results := l.Conn.ReadMany(ctx, reads)
	views := make([]view, len(names))
	var sharded []int
	for i, name := range names {
		views[i] = viewOf(l.Tree, name, results[readsPerJob*i:readsPerJob*(i+1)], parsed{})
		if views[i].sharded() {
			sharded = append(sharded, i)
		}
	}
	session.Together(len(sharded), func(k int) {
		i := sharded[k]
		views[i].fetchShards(ctx, l, names[i], self)
	})
	for _, v := range views {
		if zkconn.IsUnknown(v.err) {
			return nil, v.err
		}
	}
	return views, nil
}
