package zkrec

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes is the longest name of a job, an instance or a server type.
const MaxNameBytes = 200

// Reserved is the first letter of the names that singleworker keeps for
// itself beside the jobs.
const Reserved = "_"

const (
	instancesNode = Reserved + "instances"
	disabledNode  = Reserved + "disabled"
	registerNode  = "register"
	aliveNode     = "alive"
	tickNode      = "tick"
	historyNode   = "history"
	requestsNode  = "requests"
	alarmNode     = "alarm"
	leaderNode    = Reserved + "leader"
)

// CheckName reports why name cannot be a job's, an instance's or a server
// type's name: it becomes one element of a ZooKeeper path.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("is %d bytes long, at most %d are allowed", len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return errors.New("is not valid UTF-8")
	case name == "." || name == "..":
		return errors.New("is a path element of its own")
	case strings.HasPrefix(name, Reserved):
		return fmt.Errorf("begins with %q, which is reserved", Reserved)
	}
	for _, r := range name {
		if r == '/' || !unicode.IsPrint(r) || r >= 0xfff0 && r <= 0xffff {
			return fmt.Errorf("contains %q, want printable characters without '/'", r)
		}
	}
	return nil
}

// CheckServerType is CheckName for a server type, which is a node of the root.
func CheckServerType(name string) error {
	if name == "zookeeper" {
		return errors.New("is ZooKeeper's own node")
	}
	return CheckName(name)
}

// Tree gives the paths of one server type. Paths are relative to the chroot
// of the connect string.
type Tree struct{ root string }

// NewTree returns the tree of a server type whose name CheckName accepts.
func NewTree(serverType string) Tree { return Tree{root: "/" + serverType} }

// Root is the server type's own node.
func (t Tree) Root() string { return t.root }

// Job is the node that holds the job's spec.
func (t Tree) Job(job string) string { return t.root + "/" + job }

// Register is the parent of the registrations of a job.
func (t Tree) Register(job string) string { return t.Job(job) + "/" + registerNode }

// Registration says that instance sid has the handler of the job.
func (t Tree) Registration(job, sid string) string { return t.Register(job) + "/" + sid }

// Alive holds the job's owner record.
func (t Tree) Alive(job string) string { return t.Job(job) + "/" + aliveNode }

// Heartbeat is written by the owner of the job.
func (t Tree) Heartbeat(job, sid string) string { return t.Alive(job) + "/" + sid }

// Tick holds the last claim of the job and its result.
func (t Tree) Tick(job string) string { return t.Job(job) + "/" + tickNode }

// History holds what became of the last ticks of the job.
func (t Tree) History(job string) string { return t.Job(job) + "/" + historyNode }

// Requests is the parent of what operators ask the job's owner for.
func (t Tree) Requests(job string) string { return t.Job(job) + "/" + requestsNode }

// Request is one of them.
func (t Tree) Request(job, id string) string { return t.Requests(job) + "/" + id }

// Alarm says which tick of the job was last reported missing. It is not there
// before there was one.
func (t Tree) Alarm(job string) string { return t.Job(job) + "/" + alarmNode }

// Leader is the path of the election in latch mode.
func (t Tree) Leader() string { return t.root + "/" + leaderNode }

// Instances is the parent of the running instances.
func (t Tree) Instances() string { return t.root + "/" + instancesNode }

// Instance is the ephemeral node of one running instance.
func (t Tree) Instance(sid string) string { return t.Instances() + "/" + sid }

// Orders is the parent of the orders of operators that instances own nothing.
func (t Tree) Orders() string { return t.root + "/" + disabledNode }

// Order is the one for an instance, running or not.
func (t Tree) Order(sid string) string { return t.Orders() + "/" + sid }

// IsOrders reports whether a path is that of Orders, or below it.
func (t Tree) IsOrders(path string) bool {
	return path == t.Orders() || strings.HasPrefix(path, t.Orders()+"/")
}

// Node is a node to be created.
type Node struct {
	Path string
	Data []byte
}

// NewJob lists the nodes of a new job, the job's own first, in the order in
// which they are created.
func (t Tree) NewJob(job string, spec Spec) []Node {
	return []Node{
		{Path: t.Job(job), Data: spec.Encode()},
		{Path: t.Register(job)},
		{Path: t.Alive(job)},
		{Path: t.Tick(job)},
		{Path: t.History(job)},
		{Path: t.Requests(job)},
	}
}

// JobOf tells which job the path of its own, its alive, register or requests
// node belongs to, which are those that are watched; ok is false for any other
// path.
func (t Tree) JobOf(path string) (job string, ok bool) {
	rest, found := strings.CutPrefix(path, t.root+"/")
	if !found {
		return "", false
	}
	job, child, below := strings.Cut(rest, "/")
	if job == "" || strings.HasPrefix(job, Reserved) {
		return "", false
	}
	return job, !below || child == aliveNode || child == registerNode || child == requestsNode
}

// IsJob reports whether a child of the root is a job rather than one of
// singleworker's own nodes.
func IsJob(child string) bool { return !strings.HasPrefix(child, Reserved) }
