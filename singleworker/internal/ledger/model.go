package ledger

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Model is the group's tree as transactions made it. Not safe for concurrent use.
type Model struct {
	Jobs      map[string]*Job         // by slot; also a sharded job, which is not a slot itself
	Instances map[string]Member       // by id: those whose ephemeral node is there
	Lives     map[string]Life         // by incarnation
	Orders    map[string]zkrec.Order  // by id: of whom operators want that it own nothing
	Sessions  map[int64]time.Duration // the timeouts of those that live, as they began
	Calendars zkrec.ReadCalendars     // by name
	Limits    zkrec.ReadLimits        // by name
	Held      map[zkrec.Place]string  // the slots that hold places, as the places' nodes say
	Freeze    zkrec.ReadFreeze

	tree   zkrec.Tree
	shards map[string]map[string]*Job // by job and slot; also the slots of a job that runs on every instance
}

// Member is an instance's ephemeral node.
type Member struct {
	zkrec.Instance

	Session int64
	Since   time.Time
	Czxid   int64
	// OffsetBefore is the ClockOffset that it published until OffsetSince.
	OffsetBefore time.Duration
	OffsetSince  time.Time
}

// Job is a slot's records: a job's, a shard's, or a job's at one instance.
type Job struct {
	Name       string // "job", "job[3]", or "job/app-1"
	Born       int64  // zxid: tells it from an earlier job of that name
	Owner      zkrec.Owner
	Token      int64 // zxid of the last change of the owner record
	Since      time.Time
	Version    int32           // of the owner record
	Ownable    bool            // its owner record exists; false for a sharded job
	Beats      map[string]Beat // by instance
	Spec       zkrec.Spec      // of the job, with Since and Switch set
	Tick       zkrec.Tick
	History    zkrec.History
	Pages      [zkrec.HistoryPages][]byte // of the history
	Complete   zkrec.Complete             // of a sharded job
	Registered map[string]bool
	Requests   map[string]zkrec.Request // by id: those that wait
	Known      Known
	Newer      bool // a newer version has written one of its records
}

// Known says which records were seen, and could be read: a log may begin in the middle.
type Known struct{ Owner, Spec, Switch, Tick, History, Complete bool }

// Beat is a heartbeat.
type Beat struct {
	Zxid int64
	Time time.Time
}

// Life is the sign of life of an incarnation.
type Life struct {
	Beat

	Gap time.Duration // between the last two
}

// NewModel returns the model of an empty tree.
func NewModel(tree zkrec.Tree) *Model {
	return &Model{
		Jobs: make(map[string]*Job), Instances: make(map[string]Member), Sessions: make(map[int64]time.Duration),
		Orders: make(map[string]zkrec.Order), Lives: make(map[string]Life), Calendars: make(zkrec.ReadCalendars), Limits: make(zkrec.ReadLimits), Held: make(map[zkrec.Place]string), tree: tree, shards: make(map[string]map[string]*Job),
	}
}

// Apply takes in the next transaction.
func (m *Model) Apply(txn *txnlog.Txn) {
	switch txn.Kind {
	case txnlog.Connect:
		m.Sessions[txn.Session] = txn.Timeout
	case txnlog.Close:
		delete(m.Sessions, txn.Session)
		for sid, member := range m.Instances { // an old log does not list the nodes
			if member.Session == txn.Session {
				delete(m.Instances, sid)
				delete(m.Lives, member.Incarnation)
			}
		}
	case txnlog.Write, txnlog.Other:
	}
	for k := range txn.Ops {
		m.apply(txn, &txn.Ops[k])
	}
}

func (m *Model) apply(txn *txnlog.Txn, op *txnlog.Op) {
	switch op.Type {
	case txnlog.Create, txnlog.SetData:
		m.written(txn, op)
	case txnlog.Delete:
		m.deleted(op)
	case txnlog.Check: // changes nothing
		return
	}
	m.limited(op)
}

// load takes in a node as it is.
func (m *Model) load(n txnlog.Node) {
	op := created(n)
	m.apply(&txnlog.Txn{Zxid: n.Mzxid, Session: n.Owner, Time: n.Mtime}, &op)
	slot, node, rest, ok := m.Split(n.Path)
	switch {
	case !ok:
	case slot != "" && node == NodeJob && rest == "":
		m.Jobs[slot].Born = n.Czxid
	case slot == "" && node != nodeOrders:
		member := m.Instances[rest]
		member.Czxid = n.Czxid
		m.Instances[rest] = member
	}
}

// created is the operation that would make a node.
func created(n txnlog.Node) txnlog.Op {
	return txnlog.Op{Type: txnlog.Create, Path: n.Path, Data: n.Data, Version: n.Version, Owner: n.Owner}
}

// Return gives a node its earlier content back.
func (m *Model) Return(r txnlog.Return) {
	slot, node, _, ok := m.Split(r.Path)
	if whole := ok && slot != "" && node == NodeJob; !whole || r.Node == nil { // the job's other nodes stay
		m.apply(&txnlog.Txn{}, &txnlog.Op{Type: txnlog.Delete, Path: r.Path})
	}
	if r.Node != nil {
		m.load(*r.Node)
	}
}

// Split returns the slot that a path belongs to, which of its nodes ("" for the job's, or shard's,
// own), and the path below that. For an instance's node, or an order, the job is "" and the rest
// its id.
func (m *Model) Split(full string) (job, node, rest string, ok bool) {
	below, ok := strings.CutPrefix(full, m.tree.Root()+"/")
	if !ok {
		return "", "", "", false
	}
	for _, parent := range []string{m.tree.Instances(), m.tree.Orders()} {
		if sid, found := strings.CutPrefix(full, parent+"/"); found {
			return "", path.Base(parent), sid, true
		}
	}
	job, below, _ = strings.Cut(below, "/")
	node, rest, _ = strings.Cut(below, "/")
	ok = zkrec.IsJob(job)
	if sid, below, _ := strings.Cut(rest, "/"); node == nodeEverywhere && rest != "" {
		job = zkrec.InstanceSlot(job, sid)
		node, rest, _ = strings.Cut(below, "/")
		return job, node, rest, ok
	}
	if shard, below, _ := strings.Cut(rest, "/"); node == NodeShards && rest != "" {
		k, valid := zkrec.ParseShard(shard)
		job, ok = zkrec.ShardSlot(job, k), ok && valid
		node, rest, _ = strings.Cut(below, "/")
	}
	return job, node, rest, ok
}

// The names of a job's nodes, as Split gives them.
const (
	NodeJob      = ""
	NodeRegister = "register"
	NodeAlive    = "alive"
	NodeTick     = "tick"
	NodeHistory  = "history"
	NodeShards   = "shards"
	NodeRequests = "requests"
	nodeOrders   = "_disabled"

	nodeEverywhere = "everywhere"
)

func (m *Model) written(txn *txnlog.Txn, op *txnlog.Op) {
	if incarnation, is := strings.CutPrefix(op.Path, m.tree.Lives()+"/"); is {
		before, known := m.Lives[incarnation]
		now := Life{Beat: Beat{txn.Zxid, txn.At()}}
		if known {
			now.Gap = now.Time.Sub(before.Time)
		}
		m.Lives[incarnation] = now
		return
	}
	if name, is := m.tree.CalendarAt(op.Path); is {
		m.Calendars[name] = zkrec.NewCalendar(op.Data, op.Version, txn.Time)
		return
	}
	if op.Path == m.tree.Freeze() {
		m.Freeze = zkrec.NewFreeze(op.Data, op.Version, txn.Time, nil)
		return
	}
	name, node, rest, ok := m.Split(op.Path)
	switch {
	case !ok:
	case name == "" && node == nodeOrders:
		m.Orders[rest] = zkrec.ParseOrder(op.Data)
	case name == "":
		m.joined(txn, op, rest)
	default:
		m.recorded(m.job(name, txn.Zxid), node, rest, txn, op)
	}
}

// joined: an instance's node was written.
func (m *Model) joined(txn *txnlog.Txn, op *txnlog.Op, sid string) {
	record, _ := zkrec.ParseInstance(op.Data) // an instance with an unreadable record is alive
	member := m.Instances[sid]
	if record.ClockOffset != member.ClockOffset {
		member.OffsetBefore, member.OffsetSince = time.Duration(member.ClockOffset), txn.At()
	}
	member.Instance = record
	if op.Type == txnlog.Create {
		member.Session, member.Since, member.Czxid = txn.Session, txn.At(), txn.Zxid
	}
	m.Instances[sid] = member
}

// job returns the records of a slot, which are new if none of them has been seen.
func (m *Model) job(name string, zxid int64) *Job {
	j := m.Jobs[name]
	if j == nil {
		j = &Job{
			Name: name, Born: zxid, Beats: make(map[string]Beat), Registered: make(map[string]bool), Requests: make(map[string]zkrec.Request),
		}
		m.Jobs[name] = j
		if job := zkrec.JobOfSlot(name); job != name {
			if m.shards[job] == nil {
				m.shards[job] = make(map[string]*Job)
			}
			m.shards[job][name] = j
			if of := m.Jobs[job]; of != nil {
				j.Spec, j.Registered, j.Known.Spec, j.Known.Switch = of.Spec, of.Registered, of.Known.Spec, of.Known.Switch
			}
		}
	}
	return j
}

// recorded: a node of a slot was written.
func (m *Model) recorded(j *Job, node, rest string, txn *txnlog.Txn, op *txnlog.Op) {
	var err error
	switch {
	case node == NodeJob:
		m.specified(j, txn, op)
	case node == NodeAlive && rest == "":
		j.Owner, _ = zkrec.ParseOwner(op.Data) // one that cannot be read names nobody
		j.Token, j.Since, j.Version, j.Ownable, j.Known.Owner = txn.Zxid, txn.At(), op.Version, true, true
	case node == NodeAlive:
		j.Beats[rest] = Beat{txn.Zxid, txn.At()}
	case node == NodeTick && rest == "":
		j.Tick, err = zkrec.ParseTick(op.Data, txn.Time)
		j.Known.Tick = err == nil
	case node == NodeHistory:
		j.page(rest, op.Data)
	case node == NodeShards && rest == "":
		j.Complete, err = zkrec.ParseComplete(op.Data)
		j.Known.Complete = err == nil
	case node == NodeRegister && rest == "":
		m.switched(j, txn, op)
	case node == NodeRegister:
		j.Registered[rest] = true
	case node == NodeRequests && rest != "":
		j.Requests[rest], _ = zkrec.ParseRequest(op.Data) // one that cannot be read waits, too
	}
	j.seen(err)
}

// seen notes whether a newer version has written a record that was read with err.
func (j *Job) seen(err error) { j.Newer = j.Newer || errors.As(err, new(*zkrec.SchemaError)) }

// page: a page of a slot's history was written.
func (j *Job) page(rest string, data []byte) {
	index, err := strconv.Atoi(cmp.Or(rest, "0"))
	if err != nil || index < 0 || index >= zkrec.HistoryPages {
		return
	}
	j.Pages[index] = data
	j.History, err = zkrec.ParseHistory(j.Pages[:])
	j.Known.History = err == nil
	j.seen(err)
}

// specified: a job's own node was written, or a shard's was made.
func (m *Model) specified(j *Job, txn *txnlog.Txn, op *txnlog.Op) {
	if zkrec.JobOfSlot(j.Name) != j.Name {
		return
	}
	spec, err := zkrec.ParseSpec(j.Name, op.Data)
	j.Spec, j.Known.Spec = spec.WrittenAt(txn.Time).With(j.Spec.Switch), err == nil
	m.share(j)
}

// switched: a job's register node was written, or made.
func (m *Model) switched(j *Job, txn *txnlog.Txn, op *txnlog.Op) {
	turned, err := zkrec.ParseSwitch(op.Data)
	j.Spec, j.Known.Switch = j.Spec.With(turned.WrittenAt(txn.Time)), err == nil
	m.share(j)
}

// share gives the slots of a job their common fields.
func (m *Model) share(j *Job) {
	for _, shard := range m.Shards(j.Name) {
		shard.Spec, shard.Known.Spec, shard.Known.Switch = j.Spec, j.Known.Spec, j.Known.Switch
	}
}

// Shards lists the shards of a job whose nodes are there, by index.
func (m *Model) Shards(job string) (shards []*Job) {
	for _, j := range m.shards[job] {
		shards = append(shards, j)
	}
	slices.SortFunc(shards, func(a, b *Job) int { return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name)) })
	return shards
}

// IsSlot reports whether a name names a unit of ownership now: a job that is not divided, a shard
// of the layout in effect, or, of a job that runs on every instance, the part of one.
func (m *Model) IsSlot(name string) bool {
	j := m.Jobs[name]
	if j == nil {
		return false
	}
	return hasSlot(&j.Spec, name)
}

// hasSlot reports whether a slot is one of its job's with this spec. A job that runs on every
// instance has a slot at any instance.
func hasSlot(spec *zkrec.Spec, slot string) bool {
	if _, _, part := zkrec.SplitInstance(slot); part || spec.Job.Everywhere {
		return part && spec.Job.Everywhere
	}
	_, shard, sharded := zkrec.SplitSlot(slot)
	total := spec.ActiveLayout().Shards
	return sharded && shard < total || !sharded && total == 0
}

func (m *Model) deleted(op *txnlog.Op) {
	if incarnation, is := strings.CutPrefix(op.Path, m.tree.Lives()+"/"); is {
		delete(m.Lives, incarnation)
		return
	}
	if name, is := m.tree.CalendarAt(op.Path); is {
		delete(m.Calendars, name)
		return
	}
	if op.Path == m.tree.Freeze() {
		m.Freeze = zkrec.ReadFreeze{}
		return
	}
	job, node, rest, ok := m.Split(op.Path)
	j := m.Jobs[job]
	switch {
	case !ok:
	case node == nodeOrders:
		delete(m.Orders, rest)
	case job == "":
		delete(m.Instances, rest)
	case j == nil:
	case node == NodeJob:
		delete(m.Jobs, job)
		if of := zkrec.JobOfSlot(job); of != job {
			delete(m.shards[of], job)
		}
	case node == NodeAlive && rest != "":
		delete(j.Beats, rest)
	case node == NodeAlive:
		j.Owner, j.Ownable = zkrec.Owner{}, false
	case node == NodeTick && rest == "":
		j.Tick, j.Known.Tick = zkrec.Tick{}, false
	case node == NodeHistory:
		j.page(rest, nil)
		j.Known.History = j.Known.History && rest != ""
	case node == NodeRegister && rest != "":
		delete(j.Registered, rest)
	case node == NodeRequests && rest != "":
		delete(j.Requests, rest)
	}
}
