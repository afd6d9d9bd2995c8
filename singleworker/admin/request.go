package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// ask is a request to the owner of a job, or to the owners of its shards, over
// its tries.
type ask struct {
	ed      editor
	name    string
	id      string // the same at each shard
	request zkrec.Request
	deed    zkrec.Deed
	// judge decides, from the records and the pending requests of one slot, what
	// to request from its owner; nil means nothing.
	judge func(slot past, waiting map[string]zkrec.Request) (*zkrec.Request, error)

	target

	asked  map[string][]string // slots, by the incarnations to be told
	status JobStatus
}

// newAsk gives a request a unique ID; IDs sort by time.
func (ed editor) newAsk(ctx context.Context, kind, name string, request zkrec.Request) (*ask, error) {
	if err := checkSlot(name); err != nil {
		return nil, err
	}
	if err := checkWho(request.By, request.Reason); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make an id: %w", err)
	}
	deed := ed.deed(ctx, kind, Who{request.By, request.Reason}, name)
	request.By, request.Reason = cmp.Or(deed.By, deed.From), deed.Reason
	return &ask{ed: ed, name: name, id: id.String(), request: request, deed: deed}, nil
}

func (a *ask) run(ctx context.Context) error {
	err := a.ed.persist(ctx, func() error { return a.once(ctx) })
	return uncertain(err, a.wrote)
}

// once reads, and writes the requests unless an earlier try has. The write
// checks and changes the versions of their parents: so two concurrent requests
// cannot exceed the limit together, and one whose reply was lost cannot be
// applied after this try did not find it.
func (a *ask) once(ctx context.Context) error {
	job, err := a.ed.readJob(ctx, zkrec.JobOfSlot(a.name))
	if err != nil {
		return err
	}
	if err := a.check(job.stat); err != nil {
		return err
	}
	of := job.parse()
	slots, err := a.ed.slots(ctx, a.name, of)
	if err != nil {
		return err
	}
	inboxes := make([]inbox, len(slots))
	err = task.Each(ctx, readers, slots, func(ctx context.Context, i int, slot string) (err error) {
		inboxes[i], err = a.ed.inbox(ctx, slot)
		return err
	})
	if err != nil {
		return err
	}
	status, pasts, err := a.ed.pasts(ctx, a.name)
	if err != nil {
		return err
	}
	a.status = status
	if inboxes, pasts, err = asked(of.spec, slots, inboxes, pasts); err != nil {
		return err
	}
	ops, err := a.ops(pasts, inboxes)
	if err != nil || len(ops) == 0 {
		return err
	}
	var missing []string
	for i, p := range pasts {
		if inboxes[i].missing {
			missing = append(missing, p.slot)
		}
	}
	if len(missing) > 0 {
		if err := a.makeShards(ctx, missing, job, of.spec); err != nil {
			return err
		}
		return zkconn.ErrBadVersion // read again
	}
	same, told := a.same(job, of.spec)
	ops = append(ops, same...) // of several shards, all or none
	if deletion.Fitting(a.ed.conn, ops) < len(ops) {
		err := fmt.Errorf("do not fit in one transaction for all %d shards: ask them one by one, or with less", len(slots))
		return &invalid.FieldError{Field: "Args", Value: fmt.Sprintf("%d bytes", len(a.request.Encode())), Err: err}
	}
	_, err = a.write(ctx, a.ed.writer, job, job.proofs(a.ed.tree, false), a.deed, append(told, signals.OfRequests(a.ed.tree, a.asked)...), ops...)
	return err
}

// asked checks that what was read first, the inboxes of slots, is of the slots whose records were
// read then, and returns those that a request goes to: of a job that runs on every instance, those
// of the instances that live and take it. A part that was named alone is always asked.
func asked(of zkrec.Spec, slots []string, inboxes []inbox, pasts []past) (boxes []inbox, to []past, err error) {
	if !slices.EqualFunc(pasts, slots, func(p past, slot string) bool { return p.slot == slot }) {
		return nil, nil, zkconn.ErrBadVersion // the job has other slots now
	}
	if !of.Job.Everywhere {
		return inboxes, pasts, nil
	}
	for i, p := range pasts {
		if p.job.InstanceID != "" && (len(pasts) == 1 || !p.job.isAbsent()) {
			boxes, to = append(boxes, inboxes[i]), append(to, p)
		}
	}
	if len(to) == 0 {
		return nil, nil, fmt.Errorf("%w: it runs on every instance, and none takes it now", ErrNoHandler)
	}
	return boxes, to, nil
}

// same refuses the request if the job has changed. A job that is done has no owner: it is opened,
// of which the signals tell.
func (a *ask) same(job records, spec zkrec.Spec) (ops []zkconn.Op, told []signals.Signal) {
	ops = []zkconn.Op{zkconn.CheckOp(a.ed.tree.Job(job.slot), job.stat.Version)}
	if spec.Done == nil || !a.request.IsRun() {
		return ops, nil
	}
	return append(ops, job.register.write(spec.Switch.Open().Encode())), signals.OfJob(a.ed.tree, job.slot)
}

// makeShards creates the nodes of shards as an instance would.
func (a *ask) makeShards(ctx context.Context, slots []string, job records, spec zkrec.Spec) error {
	data, _, err := a.ed.optional(ctx, a.ed.tree.Shards(job.slot))
	if err != nil {
		return err
	}
	complete, _ := zkrec.ParseComplete(data) // an unreadable record counts as empty
	through := spec.ShardsBegin(complete)
	return task.Each(ctx, readers, slots, func(ctx context.Context, _ int, slot string) error {
		ops := append(newNodes(a.ed.tree.NewShard(slot, through)), zkconn.CheckOp(a.ed.tree.Job(job.slot), job.stat.Version))
		_, err := a.ed.conn.MultiOn(ctx, a.ed.tree.Job(job.slot), job.stat.Czxid, ops...)
		return err
	})
}

// ops returns the writes of the requests. It returns nil if an earlier try was
// applied: one of its requests is pending or completed.
func (a *ask) ops(pasts []past, inboxes []inbox) ([]zkconn.Op, error) {
	var ops []zkconn.Op
	idle := 0
	a.asked = make(map[string][]string)
	for i, slot := range pasts {
		_, waits := inboxes[i].waiting[a.id]
		if _, done := slot.manual(a.id); a.wrote && (waits || done) {
			return nil, nil
		}
		request, err := a.judge(slot, inboxes[i].waiting)
		switch {
		case errors.Is(err, ErrNotRunning) && len(pasts) > 1:
			idle++
		case err != nil && slot.slot != a.name:
			return nil, fmt.Errorf("%s: %w", slot.slot, err)
		case err != nil:
			return nil, err
		case request != nil:
			ops = append(ops, inboxes[i].guard, zkconn.CreateOp(a.ed.tree.Request(slot.slot, a.id), request.Encode()))
			for _, incarnation := range slot.hearers {
				a.asked[incarnation] = append(a.asked[incarnation], slot.slot)
			}
		}
	}
	if idle == len(pasts) {
		return nil, fmt.Errorf("%w: nor is any of its %d %s", ErrNotRunning, len(pasts), partsName(pasts[0].slot))
	}
	return ops, nil
}

// inbox holds the pending requests to the owner of a slot.
type inbox struct {
	guard   zkconn.Op // makes a write fail if the requests have changed
	waiting map[string]zkrec.Request
	missing bool // the slot is a shard that does not exist yet
}

// inbox reads a slot's inbox.
func (rd reader) inbox(ctx context.Context, slot string) (inbox, error) {
	path := rd.tree.Requests(slot)
	parent, stat, err := rd.conn.Get(ctx, path)
	box := inbox{guard: zkconn.SetOp(path, parent, stat.Version)}
	if errors.Is(err, zkconn.ErrNoNode) { // an older version created the job, or it does not exist
		var there bool
		_, there, err = rd.conn.Exists(ctx, rd.tree.Slot(slot))
		_, _, sharded := zkrec.SplitSlot(slot)
		box.guard, box.missing = zkconn.CreateOp(path, nil), sharded && !there
	}
	if err != nil {
		return inbox{}, err
	}
	box.waiting, err = rd.waiting(ctx, slot)
	return box, err
}

// waiting reads the oldest pending requests of a slot, as its owner does. One that cannot be read,
// or is not among those, still counts.
func (rd reader) waiting(ctx context.Context, slot string) (map[string]zkrec.Request, error) {
	all, err := rd.waitingAt(ctx, []string{slot})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// waitingAt is waiting for several slots, in two requests, however many those are.
func (rd reader) waitingAt(ctx context.Context, slots []string) ([]map[string]zkrec.Request, error) {
	lists := make([]zkconn.Read, len(slots))
	for i, slot := range slots {
		lists[i] = zkconn.Read{Path: rd.tree.Requests(slot), Children: true}
	}
	listed, err := rd.readMany(ctx, lists)
	if err != nil {
		return nil, err
	}
	all, at := make([]map[string]zkrec.Request, len(slots)), make(map[string]map[string]zkrec.Request)
	var paths []string
	for i, list := range listed {
		if list.Err != nil && !errors.Is(list.Err, zkconn.ErrNoNode) {
			return nil, list.Err
		}
		slices.Sort(list.Names)
		all[i] = make(map[string]zkrec.Request, len(list.Names))
		at[lists[i].Path] = all[i]
		for k, id := range list.Names {
			if k < zkrec.MaxReadRequests {
				paths = append(paths, lists[i].Path+"/"+id)
			} else {
				all[i][id] = zkrec.Request{}
			}
		}
	}
	return all, rd.eachAt(ctx, paths, func(parent string, node child) {
		request, err := zkrec.ParseRequest(node.data)
		if err != nil {
			request = zkrec.Request{}
		}
		at[parent][node.name] = request
	})
}

// manual finds the last entry of a manual run.
func (p past) manual(id string) (history.Entry, bool) {
	return p.entry(func(e history.Entry) bool { return e.Manual == id })
}

// run finds the entry of a run.
func (p past) run(id string) (history.Entry, bool) {
	return p.entry(func(e history.Entry) bool { return e.RunID == id })
}

// entry finds the last entry that matches.
func (p past) entry(matches func(history.Entry) bool) (history.Entry, bool) {
	entries := p.newestFirst()
	if i := slices.IndexFunc(entries, matches); i >= 0 {
		return entries[i], true
	}
	return history.Entry{}, false
}
