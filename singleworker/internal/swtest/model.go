package swtest

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Model is the group's tree as the server's transactions made it, worked out from the
// log alone. Not safe for concurrent use.
type Model struct {
	Jobs      map[string]*Job        // by slot; also a sharded job, which is not a slot itself
	Instances map[string]Member      // by id: those whose ephemeral node is there
	Orders    map[string]zkrec.Order // by id: of whom operators want that it own nothing
	Sessions  map[int64]bool         // those that live

	tree zkrec.Tree
}

// Member is an instance's ephemeral node.
type Member struct {
	zkrec.Instance

	Session int64
	Since   time.Time
}

// Job is a slot's records: a job's, or a shard's.
type Job struct {
	Name       string // "job", or "job[3]"
	Born       int64  // zxid: tells it from an earlier job of that name
	Owner      zkrec.Owner
	Token      int64 // zxid of the last change of the owner record
	Since      time.Time
	Version    int32 // of the owner record
	Ownable    bool  // its owner record exists; false for a sharded job
	Beats      map[string]time.Time
	Spec       zkrec.Spec // of the job, with Since set
	Tick       zkrec.Tick
	Registered map[string]bool
	Requests   map[string]bool // by id: those that wait
}

// NewModel returns the model of an empty tree.
func NewModel(tree zkrec.Tree) *Model {
	return &Model{
		Jobs: make(map[string]*Job), Instances: make(map[string]Member), Sessions: make(map[int64]bool),
		Orders: make(map[string]zkrec.Order), tree: tree,
	}
}

// Apply takes in the next transaction. What was refused changes nothing.
func (m *Model) Apply(txn zkdev.Txn) {
	if txn.Code != zkdev.OK {
		return
	}
	switch txn.Op {
	case zkdev.OpConnect:
		m.Sessions[txn.Session] = true
	case zkdev.OpCloseSession:
		delete(m.Sessions, txn.Session)
	case zkdev.OpCreate, zkdev.OpCreate2, zkdev.OpSetData:
		m.written(txn)
	case zkdev.OpDelete:
		m.deleted(txn)
	default: // changes nothing
	}
}

// Split returns the slot that a path belongs to, which of its nodes ("" for the job's, or shard's, own),
// and what stands below that. For an instance's node, or an order, the job is "" and the rest its id.
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
	if shard, below, _ := strings.Cut(rest, "/"); node == NodeShards && rest != "" {
		k, err := strconv.Atoi(shard)
		job, ok = zkrec.ShardSlot(job, k), ok && err == nil
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
)

func (m *Model) written(txn zkdev.Txn) {
	job, node, rest, ok := m.Split(txn.Path)
	if !ok {
		return
	}
	if job == "" && node == nodeOrders {
		m.Orders[rest] = zkrec.ParseOrder(txn.Data)
		return
	}
	if job == "" {
		record, _ := zkrec.ParseInstance(txn.Data) // an instance with an unreadable record is alive
		member := m.Instances[rest]
		member.Instance = record
		if txn.Op != zkdev.OpSetData {
			member.Session, member.Since = txn.Session, txn.Time
		}
		m.Instances[rest] = member
		return
	}
	j := m.Jobs[job]
	if node == NodeJob && j == nil {
		m.Jobs[job] = &Job{
			Name: job, Born: txn.Zxid, Beats: make(map[string]time.Time), Registered: make(map[string]bool),
			Requests: make(map[string]bool),
		}
		j = m.Jobs[job]
	}
	if j == nil {
		return
	}
	switch {
	case node == NodeJob:
		m.specified(j, txn)
	case node == NodeAlive && rest == "":
		j.Owner, _ = zkrec.ParseOwner(txn.Data)
		j.Token, j.Since, j.Version, j.Ownable = txn.Zxid, txn.Time, txn.Version, true
	case node == NodeAlive:
		j.Beats[rest] = txn.Time
	case node == NodeTick:
		j.Tick, _ = zkrec.ParseTick(txn.Data, time.Time{})
	case node == NodeRegister && rest != "":
		j.Registered[rest] = true
	case node == NodeRequests && rest != "":
		j.Requests[rest] = true
	}
}

// specified: a job's own node was written, or a shard's was made.
func (m *Model) specified(j *Job, txn zkdev.Txn) {
	if job, _, sharded := zkrec.SplitSlot(j.Name); sharded {
		if whole := m.Jobs[job]; whole != nil {
			j.Spec, j.Registered = whole.Spec, whole.Registered
		}
		return
	}
	j.Spec, _ = zkrec.ParseSpec(j.Name, txn.Data)
	j.Spec.Since = j.Spec.SinceOr(txn.Time)
	for _, shard := range m.Shards(j.Name) {
		shard.Spec = j.Spec
	}
}

// Shards lists those of a job whose nodes are there, by index.
func (m *Model) Shards(job string) (shards []*Job) {
	for name, j := range m.Jobs {
		if of, _, sharded := zkrec.SplitSlot(name); sharded && of == job {
			shards = append(shards, j)
		}
	}
	slices.SortFunc(shards, func(a, b *Job) int { return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name)) })
	return shards
}

// IsSlot reports whether a name is that of a unit of ownership now: a job that is not divided,
// or a shard of the layout in effect.
func (m *Model) IsSlot(name string) bool {
	j := m.Jobs[name]
	if j == nil {
		return false
	}
	_, shard, sharded := zkrec.SplitSlot(name)
	total := j.Spec.ActiveLayout().Shards
	return sharded && shard < total || !sharded && total == 0
}

func (m *Model) deleted(txn zkdev.Txn) {
	job, node, rest, ok := m.Split(txn.Path)
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
	case node == NodeAlive && rest != "":
		delete(j.Beats, rest)
	case node == NodeAlive:
		j.Owner, j.Ownable = zkrec.Owner{}, false
	case node == NodeRegister && rest != "":
		delete(j.Registered, rest)
	case node == NodeRequests && rest != "":
		delete(j.Requests, rest)
	}
}

// LiveOwner is the id of the instance that owns the slot and lives, or "".
func (m *Model) LiveOwner(slot string) string {
	j := m.Jobs[slot]
	if !m.IsSlot(slot) || j.Owner.SID == "" {
		return ""
	}
	if member, lives := m.Instances[j.Owner.SID]; !lives || member.Incarnation != j.Owner.Incarnation {
		return ""
	}
	return j.Owner.SID
}

// View calls f with the tree as it is now, which f must not keep or change.
func (c *Cluster) View(f func(m *Model)) {
	c.modelMu.Lock()
	defer c.modelMu.Unlock()
	if c.model == nil {
		c.model = NewModel(c.tree)
	}
	for _, txn := range c.Server.LogAfter(c.applied) { // all that one zxid has done is logged at once
		c.model.Apply(txn)
		c.applied = txn.Zxid
	}
	f(c.model)
}

// Owners returns the owner of each slot that a live instance owns.
func (c *Cluster) Owners() map[string]string {
	owners := make(map[string]string)
	c.View(func(m *Model) {
		for slot := range m.Jobs {
			if sid := m.LiveOwner(slot); sid != "" {
				owners[slot] = sid
			}
		}
	})
	return owners
}

// Shares counts the slots of each live instance, from Owners.
func (c *Cluster) Shares() map[string]int {
	shares := make(map[string]int)
	for _, i := range c.Live() {
		shares[i.Name] = 0
	}
	for sid := range maps.Values(c.Owners()) {
		shares[sid]++
	}
	return shares
}

// Await polls ok a hundred times per session timeout until it returns true, and reports whether that happened
// within the time given.
func (c *Cluster) Await(within time.Duration, ok func() bool) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	look := time.NewTicker(c.cfg.SessionTimeout / 100)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-timer.C:
			return ok()
		}
	}
	return true
}
