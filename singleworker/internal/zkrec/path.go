package zkrec

import (
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	instancesNode = job.Reserved + "instances"
	disabledNode  = job.Reserved + "disabled"
	handlersNode  = job.Reserved + "handlers"
	excludedNode  = job.Reserved + "excluded"
	lifeNode      = job.Reserved + "life"
	changesNode   = job.Reserved + "changes"
	askedNode     = job.Reserved + "asked"
	registerNode  = "register"
	aliveNode     = "alive"
	tickNode      = "tick"
	historyNode   = "history"
	requestsNode  = "requests"
	alarmNode     = "alarm"
	stackNode     = "stack"
	shardsNode    = "shards"
	everyNode     = "everywhere"
	versionsNode  = "versions"
	leaderNode    = job.Reserved + "leader"
	noticesNode   = job.Reserved + "notify"
	logNode       = job.Reserved + "log"
	goneNode      = job.Reserved + "gone"
	accessNode    = job.Reserved + "acl"
	canceledNode  = job.Reserved + "canceled"
	calendarsNode = job.Reserved + "calendars"
	freezeNode    = job.Reserved + "freeze"
	limitsNode    = job.Reserved + "limits"
)

// sampleServerType is the server type of the published sample if it is given none.
const sampleServerType = "_-default-_"

// CheckServerType is job.CheckNodeName for a server type, which is a node of the root.
func CheckServerType(name string) error {
	switch name {
	case "zookeeper":
		return errors.New("is ZooKeeper's own node")
	case sampleServerType:
		return nil
	}
	return job.CheckNodeName(name)
}

// Tree gives the paths of one server type. Paths are relative to the chroot
// of the connect string.
type Tree struct{ root string }

// NewTree returns the tree of a server type whose name CheckServerType accepts.
func NewTree(serverType string) Tree { return Tree{root: "/" + serverType} }

// Root is the server type's own node.
func (t Tree) Root() string { return t.root }

// Job is the node that holds the job's spec.
func (t Tree) Job(job string) string { return t.root + "/" + job }

// Register is the parent of the registrations of a job, and holds its Switch.
func (t Tree) Register(job string) string { return t.Job(job) + "/" + registerNode }

// Registration is the node that says that instance sid has the job's handler.
func (t Tree) Registration(job, sid string) string { return t.Register(job) + "/" + sid }

// Shards is the parent of the nodes of a sharded job's slots.
func (t Tree) Shards(job string) string { return t.Job(job) + "/" + shardsNode }

// Everywhere is the parent of the nodes of the slots of a job that runs on every instance.
func (t Tree) Everywhere(job string) string { return t.Job(job) + "/" + everyNode }

// Slot is the parent of the nodes of one slot: the job's own, its shard's, or the job's at one
// instance.
func (t Tree) Slot(slot string) string {
	if job, sid, ok := SplitInstance(slot); ok {
		return t.Everywhere(job) + "/" + sid
	}
	job, shard, sharded := SplitSlot(slot)
	if !sharded {
		return t.Job(job)
	}
	return t.Shards(job) + "/" + strconv.Itoa(shard)
}

// Alive holds the slot's owner record.
func (t Tree) Alive(slot string) string { return t.Slot(slot) + "/" + aliveNode }

// Heartbeat is written by the owner of the slot.
func (t Tree) Heartbeat(slot, sid string) string { return t.Alive(slot) + "/" + sid }

// Tick holds the last claim of the slot and its result.
func (t Tree) Tick(slot string) string { return t.Slot(slot) + "/" + tickNode }

// Late is held by the runner of a run while it writes the run's result without owning the slot. It
// proves that the tick node is still the one that was read: the versions of a job that was deleted
// and submitted again start at 0.
func (t Tree) Late(slot, runID string) string { return t.Tick(slot) + "/" + runID }

// History holds the outcome of the slot's last ticks, and is the parent of the other pages of that.
func (t Tree) History(slot string) string { return t.Slot(slot) + "/" + historyNode }

// HistoryPage is a page of the slot's history, by its index. All but the first, which is History,
// are created when they are first needed.
func (t Tree) HistoryPage(slot string, index int) string {
	if index == 0 {
		return t.History(slot)
	}
	return t.History(slot) + "/" + strconv.Itoa(index)
}

// HistoryPages are the pages of the slot's history, in their order.
func (t Tree) HistoryPages(slot string) []string {
	pages := make([]string, HistoryPages)
	for i := range pages {
		pages[i] = t.HistoryPage(slot, i)
	}
	return pages
}

// Requests is the parent of the pending requests to the slot's owner.
func (t Tree) Requests(slot string) string { return t.Slot(slot) + "/" + requestsNode }

// Request is one of them.
func (t Tree) Request(slot, id string) string { return t.Requests(slot) + "/" + id }

// Alarm holds the slot's tick that was last reported as missed. It does not exist
// before the first.
func (t Tree) Alarm(slot string) string { return t.Slot(slot) + "/" + alarmNode }

// Stack holds where the handler was of a run that did not end when it was told to. It does not
// exist before the first.
func (t Tree) Stack(slot string) string { return t.Slot(slot) + "/" + stackNode }

// Leader is the path of the election in latch mode.
func (t Tree) Leader() string { return t.root + "/" + leaderNode }

// Notices is the head of what package notify has told, and is to tell, and the parent of its parts.
func (t Tree) Notices() string { return t.root + "/" + noticesNode }

// Instances is the parent of the running instances.
func (t Tree) Instances() string { return t.root + "/" + instancesNode }

// Instance is the ephemeral node of one running instance.
func (t Tree) Instance(sid string) string { return t.Instances() + "/" + sid }

// Lives is the parent of the instances' signs of life.
func (t Tree) Lives() string { return t.root + "/" + lifeNode }

// Life is the ephemeral node that an incarnation of an instance writes four times per session
// timeout.
func (t Tree) Life(incarnation string) string { return t.Lives() + "/" + incarnation }

// AllDeparted is the parent of the records of instances that are gone.
func (t Tree) AllDeparted() string { return t.root + "/" + goneNode }

// Departed is the record of an incarnation whose node, which that transaction had created, is gone.
func (t Tree) Departed(incarnation string, czxid int64) string {
	return t.AllDeparted() + "/" + incarnation + "-" + strconv.FormatInt(czxid, 16)
}

// InstanceOf is the instance whose node a path is.
func (t Tree) InstanceOf(path string) (sid string, ok bool) {
	return strings.CutPrefix(path, t.Instances()+"/")
}

// IsInstance reports whether a path is an instance's node.
func (t Tree) IsInstance(path string) bool {
	_, ok := t.InstanceOf(path)
	return ok
}

// Handlers is the parent of the lists of handlers that instances publish.
func (t Tree) Handlers() string { return t.root + "/" + handlersNode }

// HandlerList is the list with that hash; see EncodeHandlers.
func (t Tree) HandlerList(hash string) string { return t.Handlers() + "/" + hash }

// Orders is the parent of operators' orders to instances.
func (t Tree) Orders() string { return t.root + "/" + disabledNode }

// Order is the order for an instance, running or not.
func (t Tree) Order(sid string) string { return t.Orders() + "/" + sid }

// IsOrders reports whether a path is Orders, or below it, or Exclusions, whose children never
// change.
func (t Tree) IsOrders(path string) bool {
	return path == t.Orders() || path == t.Exclusions() || strings.HasPrefix(path, t.Orders()+"/")
}

// Exclusions is the parent of operators' orders for one job, or for a host.
func (t Tree) Exclusions() string { return t.root + "/" + excludedNode }

// Exclusion is the order with that name; see Exclusion.Name.
func (t Tree) Exclusion(name string) string { return t.Exclusions() + "/" + name }

// Changes is the parent of the signals of changes.
func (t Tree) Changes() string { return t.root + "/" + changesNode }

// Signals is how many signals of changes there are: the jobs are divided among them.
const Signals = 64

// SignalOf is the number of the signal that a job belongs to.
func SignalOf(job string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(job))
	return int(h.Sum32() % Signals)
}

// Signal is set, with the name of the job, by each transaction that changes the spec or the switch
// of a job that belongs to it, or deletes its node.
func (t Tree) Signal(n int) string { return t.Changes() + "/" + strconv.Itoa(n) }

// SignalAt is the number of the signal whose node a path is.
func (t Tree) SignalAt(path string) (n int, ok bool) {
	name, below := strings.CutPrefix(path, t.Changes()+"/")
	n, err := strconv.Atoi(name)
	return n, below && err == nil && n >= 0 && n < Signals
}

// Asked is the parent of the signals of requests.
func (t Tree) Asked() string { return t.root + "/" + askedNode }

// AskedOf is set, with the names of the slots, one per line, by each transaction that asks
// something of an incarnation of an instance as the owner of slots, or as the one that comes next,
// or that withdraws a request. It is that incarnation's ephemeral node.
func (t Tree) AskedOf(incarnation string) string { return t.Asked() + "/" + incarnation }

// Node is a node to be created.
type Node struct {
	Path string
	Data []byte
}

// NewJob lists the nodes of a new job, the job's own first, in the order in which they are created.
// The shards' nodes, which may be too many for one transaction, are created by the first instance
// or client that misses them. If a job runs everywhere, each instance creates its own.
func (t Tree) NewJob(job string, spec Spec) []Node {
	nodes := []Node{{Path: t.Job(job), Data: spec.Encode()}, {Path: t.Register(job), Data: spec.Switch.Encode()}}
	switch {
	case spec.Job.Everywhere:
		return append(nodes, Node{Path: t.Everywhere(job)})
	case spec.Job.Shards > 0:
		return append(nodes, Node{Path: t.Shards(job)})
	}
	return append(nodes, t.NewSlot(job, 0)...)
}

// NewShard lists the nodes of a new shard, or of a job at an instance, whose ticks begin after
// through; 0 means after the creation of the nodes.
func (t Tree) NewShard(slot string, through int64) []Node {
	return append([]Node{{Path: t.Slot(slot)}}, t.NewSlot(slot, through)...)
}

// NewSlot lists the nodes below a slot's own. Its ticks begin after through; 0
// means after the creation of the nodes.
func (t Tree) NewSlot(slot string, through int64) []Node {
	var tick []byte
	if through != 0 {
		tick = Tick{Watermark: through}.Encode()
	}
	return []Node{
		{Path: t.Alive(slot)},
		{Path: t.Tick(slot), Data: tick},
		{Path: t.History(slot)},
		{Path: t.Requests(slot)},
	}
}

// Watched returns the slot or job of a watched path: a slot, for its alive, tick or requests node,
// or a job, for its own node, its registrations or the list of its shards, or of the instances that
// it runs on. ok is false for any other path.
func (t Tree) Watched(path string) (slot string, ok bool) {
	rest, found := strings.CutPrefix(path, t.root+"/")
	if !found {
		return "", false
	}
	parts := strings.Split(rest, "/")
	slot = parts[0]
	if !IsJob(slot) {
		return "", false
	}
	if len(parts) > 2 && parts[1] == everyNode {
		slot, parts = InstanceSlot(slot, parts[2]), append(parts[:1], parts[3:]...)
	} else if len(parts) > 2 && parts[1] == shardsNode {
		shard, ok := ParseShard(parts[2])
		if !ok {
			return "", false
		}
		slot, parts = ShardSlot(slot, shard), append(parts[:1], parts[3:]...)
	}
	switch len(parts) {
	case 1:
		return slot, true
	case 2:
		return slot, slices.Contains(watchedNodes, parts[1])
	}
	return "", false
}

var watchedNodes = []string{registerNode, shardsNode, everyNode, aliveNode, tickNode, requestsNode}

// IsJob reports whether a child of the root is a job rather than one of
// singleworker's own nodes. A node with the name of a shard is neither.
func IsJob(child string) bool {
	is, err := JobName(child)
	return is && err == nil
}

// JobName reports whether a child of the root stands where a job does, and why its name cannot be a
// job's: it was created manually, no instance runs it, and nothing can be asked of it.
func JobName(child string) (is bool, err error) {
	_, _, shard := SplitSlot(child)
	if shard || strings.HasPrefix(child, job.Reserved) {
		return false, nil
	}
	return true, job.CheckName(child)
}
