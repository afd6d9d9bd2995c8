package tree

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// commit applies a prepared operation at the current zxid. It returns its result in the form used
// in a multi.
func (s *State) commit(out *Output, now time.Time, session int64, c change) wire.Result {
	txn := Txn{
		Zxid: s.last, Time: now, Session: session, Op: c.op,
		Path: c.path, Data: c.data, Version: c.version, Owner: c.owner, acl: c.acl, ahead: s.Ahead,
	}
	written := now.Add(s.Ahead)
	if c.op == wire.OpCreate || c.op == wire.OpCreate2 {
		parent, _ := split(c.path)
		txn.born = s.nodes[parent].creates + 1
	}
	out.Txns = append(out.Txns, txn)
	result := wire.Result{Op: c.op}
	switch c.op {
	case wire.OpCreate:
		s.insert(out, written, c)
		result.Body = wire.PathBody(c.path)
	case wire.OpCreate2:
		stat := s.insert(out, written, c)
		result.Body = wire.PathStatBody{Path: c.path, Stat: stat}
	case wire.OpDelete:
		s.remove(out, c.path)
	case wire.OpSetData:
		n := s.nodes[c.path]
		n.data, n.version, n.mzxid, n.mtime = c.data, c.version, s.last, written.UnixMilli()
		result.Body = wire.StatBody(n.stat())
		trigger(out, s.data, wire.NodeDataChanged, c.path, n.acl, nil)
	case wire.OpSetACL:
		n := s.nodes[c.path]
		n.acl, n.aversion = c.acl, c.version
		result.Body = wire.StatBody(n.stat())
	default: // a check changes nothing
	}
	return result
}

func (s *State) insert(out *Output, written time.Time, c change) wire.Stat {
	parentPath, name := split(c.path)
	parent := s.nodes[parentPath]
	ms := written.UnixMilli()
	n := &node{
		data: c.data, acl: c.acl, owner: c.owner,
		czxid: s.last, mzxid: s.last, pzxid: s.last, ctime: ms, mtime: ms,
	}
	s.nodes[c.path] = n
	parent.children.add(name, hashString(name))
	parent.creates++
	parent.pzxid = s.last
	if owner := s.sessions[c.owner]; owner != nil {
		owner.ephemerals.add(c.path, hashString(c.path))
	}
	trigger(out, s.data, wire.NodeCreated, c.path, n.acl, nil)
	trigger(out, s.children, wire.NodeChildrenChanged, display(parentPath), parent.acl, nil)
	return n.stat()
}

func (s *State) remove(out *Output, path string) {
	parentPath, name := split(path)
	parent, n := s.nodes[parentPath], s.nodes[path]
	parent.children.remove(name)
	parent.pzxid = s.last
	delete(s.nodes, path)
	if owner := s.sessions[n.owner]; owner != nil {
		owner.ephemerals.remove(path)
	}
	told := trigger(out, s.data, wire.NodeDeleted, path, n.acl, nil)
	trigger(out, s.children, wire.NodeDeleted, path, n.acl, told)
	trigger(out, s.children, wire.NodeChildrenChanged, display(parentPath), parent.acl, nil)
}

// display returns the path under which a parent is watched.
func display(path string) string {
	if path == "" {
		return "/"
	}
	return path
}
