package tree

import (
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A record is the state of a node that later operations of a transaction depend on.
type record struct {
	version, aversion, creates int32
	children                   int
	owner                      int64
	acl                        []wire.ACL
}

// A plan prepares the operations of one transaction. Its records are the nodes as the operations so
// far will leave them; nil means deleted.
type plan struct {
	state   *State
	client  Client
	records map[string]*record
}

// A change is a prepared operation.
type change struct {
	op      wire.Op
	path    string
	data    []byte
	acl     []wire.ACL
	owner   int64
	version int32 // after a setData (of the data) or a setACL (of the ACL)
}

func (s *State) plan(client Client) *plan {
	return &plan{state: s, client: client, records: map[string]*record{}}
}

// record returns a copy of the node's record, which takes effect when it is kept, or nil.
func (p *plan) record(path string) *record {
	if r, ok := p.records[path]; ok {
		if r == nil {
			return nil
		}
		c := *r
		return &c
	}
	n := p.state.nodes[path]
	if n == nil {
		return nil
	}
	return &record{
		version: n.version, aversion: n.aversion, creates: n.creates,
		children: n.children.len(), owner: n.owner, acl: n.acl,
	}
}

// prepare checks one operation.
func (p *plan) prepare(r *wire.Request) (change, wire.Code) {
	switch r.Op {
	case wire.OpCreate, wire.OpCreate2:
		return p.create(r)
	case wire.OpDelete:
		return p.delete(r)
	case wire.OpSetData:
		return p.setData(r)
	case wire.OpSetACL:
		return p.setACL(r)
	case wire.OpCheck:
		return p.check(r)
	case wire.OpReconfig:
		return change{}, wire.ReconfigDisabled
	default: // containers and TTL
		return change{}, wire.Unimplemented
	}
}

// matchVersion compares the version that a request expects, -1 for any.
func matchVersion(actual, expected int32) wire.Code {
	if expected != -1 && expected != actual {
		return wire.BadVersion
	}
	return wire.OK
}

// createMode splits the flags of a create.
func createMode(flags int32) (ephemeral, sequential bool, code wire.Code) {
	switch flags {
	case wire.FlagPersistent, wire.FlagEphemeral, wire.FlagSequential, wire.FlagEphemeralSequential:
		return flags&wire.FlagEphemeral != 0, flags&wire.FlagSequential != 0, wire.OK
	case wire.FlagContainer, wire.FlagTTL, wire.FlagPersistentSequentialTTL:
		return false, false, wire.Unimplemented
	}
	return false, false, wire.BadArguments
}

func (p *plan) create(r *wire.Request) (change, wire.Code) {
	ephemeral, sequential, code := createMode(r.Flags)
	if code != wire.OK {
		return change{}, code
	}
	parentPath, code := parentOf(r.Path)
	if code != wire.OK {
		return change{}, code
	}
	acl, code := fixACL(r.ACL, p.client.IDs)
	if code != wire.OK {
		return change{}, code
	}
	parent := p.record(parentPath)
	path := r.Path
	switch {
	case parent == nil:
		return change{}, wire.NoNode
	case !allowed(parent.acl, wire.PermCreate, p.client.IDs):
		return change{}, wire.NoAuth
	case sequential:
		path += fmt.Sprintf("%010d", parent.creates)
	}
	switch {
	case !validPath(path):
		return change{}, wire.BadArguments
	case p.record(path) != nil:
		return change{}, wire.NodeExists
	case parent.owner != 0:
		return change{}, wire.NoChildrenForEphemerals
	}
	var owner int64
	if ephemeral {
		owner = p.client.Session
	}
	parent.children++
	parent.creates++
	p.records[parentPath] = parent
	p.records[path] = &record{owner: owner, acl: acl}
	return change{op: r.Op, path: path, data: r.Data, acl: acl, owner: owner}, wire.OK
}

func (p *plan) delete(r *wire.Request) (change, wire.Code) {
	parentPath, code := parentOf(r.Path)
	if code != wire.OK || special(r.Path) {
		return change{}, wire.BadArguments
	}
	parent := p.record(parentPath)
	if parent == nil {
		return change{}, wire.NoNode
	}
	if !allowed(parent.acl, wire.PermDelete, p.client.IDs) {
		return change{}, wire.NoAuth
	}
	n := p.record(r.Path)
	if n == nil {
		return change{}, wire.NoNode
	}
	if code := matchVersion(n.version, r.Version); code != wire.OK {
		return change{}, code
	}
	if n.children > 0 {
		return change{}, wire.NotEmpty
	}
	parent.children--
	p.records[parentPath] = parent
	p.records[r.Path] = nil
	return change{op: r.Op, path: r.Path}, wire.OK
}

// writable finds the node of a setData, setACL or check.
func (p *plan) writable(path string, perm int32) (*record, wire.Code) {
	if !validPath(path) {
		return nil, wire.BadArguments
	}
	n := p.record(path)
	if n == nil {
		return nil, wire.NoNode
	}
	if !allowed(n.acl, perm, p.client.IDs) {
		return nil, wire.NoAuth
	}
	return n, wire.OK
}

func (p *plan) setData(r *wire.Request) (change, wire.Code) {
	n, code := p.writable(r.Path, wire.PermWrite)
	if code == wire.OK {
		code = matchVersion(n.version, r.Version)
	}
	if code != wire.OK {
		return change{}, code
	}
	n.version++
	p.records[r.Path] = n
	return change{op: r.Op, path: r.Path, data: r.Data, version: n.version}, wire.OK
}

func (p *plan) check(r *wire.Request) (change, wire.Code) {
	n, code := p.writable(r.Path, wire.PermRead)
	if code == wire.OK {
		code = matchVersion(n.version, r.Version)
	}
	if code != wire.OK {
		return change{}, code
	}
	return change{op: r.Op, path: r.Path, version: n.version}, wire.OK
}

func (p *plan) setACL(r *wire.Request) (change, wire.Code) {
	if !validPath(r.Path) {
		return change{}, wire.BadArguments
	}
	acl, code := fixACL(r.ACL, p.client.IDs)
	if code != wire.OK {
		return change{}, code
	}
	n, code := p.writable(r.Path, wire.PermAdmin)
	if code == wire.OK {
		code = matchVersion(n.aversion, r.Version)
	}
	if code != wire.OK {
		return change{}, code
	}
	return change{op: r.Op, path: r.Path, acl: acl, version: n.aversion + 1}, wire.OK
}

// refusal returns the log entry of an operation that was refused or not tried.
func (s *State) refusal(now time.Time, client Client, r *wire.Request, code wire.Code) Txn {
	return Txn{
		Zxid: s.last, Time: now, Session: client.Session, Op: r.Op,
		Path: r.Path, Data: r.Data, Version: r.Version, Code: code, ahead: s.Ahead,
	}
}
