package admin

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// reading holds the records of a job, or of one slot of it, as they were read.
type reading struct {
	name  string // as it was asked for
	err   error  // why the rest could not be read
	of    parsed
	job   records   // what the slots have in common
	slots []records // in their order
	first *records  // of the first shard, if others wait for it: at least its tick record
	after []records // of the job's parents: the tick records

	complete    zkrec.Complete // the tick up to which all shards of the job have finished
	completeErr error          // why that cannot be read
}

// records holds the records of one slot: of a job without shards, of a shard, or of a job at one
// instance.
type records struct {
	slot       string
	spec       []byte      // of the job
	stat       zkconn.Stat // of the spec
	register   node        // of the job, with its switch
	registered []string    // for the job
	basis      basis       // of the job
	freeze     zkrec.ReadFreeze
	owner      zkrec.Owner
	ownerStat  zkconn.Stat
	tick       zkrec.Tick
	tickErr    error // why the tick record cannot be read
	version    int32 // of the tick record
	settled    bool  // an open run is not the owner's, and that is no matter of when they were read
	alarm      *zkrec.Alarm
	gate       *ticks.Gate   // of a slot that waits for others; nil: nothing is known of them
	after      []records     // of the parents for which it waits: the tick records
	history    zkrec.History // read if it was asked for, or the last run did not succeed
	historyErr error         // why it cannot be read
}

// beside holds more that is read in the requests of a reading of one job, which then has its
// histories, too: lists together with the spec, and so before the records, and the children that
// the lists name together with the owner.
type beside struct {
	lists

	listed, nodes []zkconn.ReadResult
}

// readings reads the records of jobs, or of single slots of them. Ten thousand take as many
// requests as one, but for their size. A job whose slots have changed meanwhile is read again.
func (rd reader) readings(ctx context.Context, names []string) ([]reading, error) {
	return rd.readingsBeside(ctx, names, nil)
}

// readingsBeside is readings with more, unless that is nil.
func (rd reader) readingsBeside(ctx context.Context, names []string, also *beside) ([]reading, error) {
	all := make([]reading, len(names))
	left := make([]*reading, len(names))
	for i, name := range names {
		all[i].name, left[i] = name, &all[i]
	}
	for len(left) > 0 {
		for _, into := range left {
			*into = reading{name: into.name}
		}
		r := round{reader: rd, all: left, also: also}
		if err := r.read(ctx); err != nil {
			return nil, err
		}
		left = r.changed
	}
	return all, nil
}

// reading reads the records of one job, or slot, and more beside them, unless that is nil.
func (rd reader) reading(ctx context.Context, name string, also *beside) (reading, error) {
	all, err := rd.readingsBeside(ctx, []string{name}, also)
	if err == nil && errors.Is(all[0].err, ErrNotFound) {
		err = rd.gone(ctx, zkrec.JobOfSlot(name))
	}
	if err != nil {
		return reading{}, err
	}
	return all[0], all[0].err
}

// slots lists the slots of a name.
func (rd reader) slots(ctx context.Context, name string, of parsed) ([]string, error) {
	var sids []string
	if of.isEverywhere() {
		var err error
		if sids, err = rd.children(ctx, rd.tree.Everywhere(zkrec.JobOfSlot(name))); err != nil {
			return nil, err
		}
	}
	return of.slots(name, sids)
}

// readJob reads the spec and the switch of a job.
func (rd reader) readJob(ctx context.Context, job string) (records, error) {
	path, register := rd.tree.Job(job), rd.tree.Register(job)
	results, err := rd.readMany(ctx, []zkconn.Read{{Path: path}, {Path: register}})
	switch {
	case err != nil:
		return records{}, err
	case errors.Is(results[0].Err, zkconn.ErrNoNode):
		return records{}, ErrNotFound
	case results[0].Err != nil:
		return records{}, results[0].Err
	case results[1].Err != nil && !errors.Is(results[1].Err, zkconn.ErrNoNode):
		return records{}, results[1].Err
	}
	read := records{slot: job, spec: results[0].Data, stat: results[0].Stat, register: nodeOf(register, results[1])}
	if spec, parseErr := zkrec.ParseSpec(job, read.spec); parseErr == nil {
		read.basis, err = rd.basis(ctx, nil, spec)
	}
	return read, err
}
