package catalog

import (
	"context"
	"errors"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// view is one reading of a job's spec and registrations, and of the list of its shards.
type view struct {
	spec       *zkrec.Spec // nil if the node was not read
	specErr    error       // why it, or the record of complete ticks, cannot be read
	ticks      *ticks.Job
	ticksErr   error // why it can never run
	stat       zkconn.Stat
	own        bool     // this instance is registered
	registered []string // all registrations, if they were listed
	shards     shards
	err        error
}

// parsed is a version of a spec that need not be parsed again, if ticks is set. A server that was restored from a backup, or emptied, counts
// transactions and versions again: only the time at which a node was written tells two of the same numbers apart.
type parsed struct {
	created int64
	written int64 // ZooKeeper's time, in Unix milliseconds
	spec    *zkrec.Spec
	ticks   *ticks.Job
}

func (j *Job) parsed() parsed {
	if j.stripped {
		return parsed{}
	}
	return parsed{j.Created, j.Written, j.Spec, j.Ticks}
}

func (p parsed) is(stat zkconn.Stat) bool {
	return p.ticks != nil && p.created == stat.Czxid && p.ticks.SpecVersion == stat.Version && p.written == stat.Mtime.UnixMilli()
}

// dropPayload forgets what only runs and people need: others run the job, and it is read again when this instance may.
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
const readsPerJob = 2

// readsOf lists what is read of a job: its spec, of whose changes a signal tells, and this instance's registration. If list,
// all registrations are listed, and watched.
func readsOf(tree zkrec.Tree, name, self string, list bool) []zkconn.Read {
	reads := []zkconn.Read{{Path: tree.Job(name)}, {Path: tree.Registration(name, self)}}
	if list {
		reads = append(reads, zkconn.Read{Path: tree.Register(name), Children: true, Watch: true})
	}
	return reads
}

// viewOf says what the results of readsOf mean.
func viewOf(path, name string, results []zkconn.ReadResult, known parsed) (v view) {
	spec, own := results[0], results[1]
	if v.err = spec.Err; v.err != nil {
		return v
	}
	if v.stat = spec.Stat; known.is(v.stat) {
		v.spec, v.ticks = known.spec, known.ticks
	} else {
		v.parse(path, name, spec.Data)
	}
	v.own = own.Err == nil
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

// parse takes in the data of the job's node.
func (v *view) parse(path, name string, data []byte) {
	spec, err := zkrec.ParseSpec(name, data)
	if err == nil {
		err = spec.ActiveLayout().Check() // no version writes such a layout: its slots cannot be listed
	}
	spec = spec.WrittenAt(v.stat.Mtime)
	if v.spec, v.specErr = &spec, session.ReadError(path, err); v.specErr != nil {
		return
	}
	if parsed, err := ticks.JobOf(v.spec, v.stat.Version); err != nil {
		v.ticksErr = err
	} else {
		v.ticks = &parsed
	}
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

// fetchShards completes the view of a sharded job, or of one that runs on every instance, beside the loop.
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
		views[i] = viewOf(l.Tree.Job(name), name, results[readsPerJob*i:readsPerJob*(i+1)], parsed{})
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
