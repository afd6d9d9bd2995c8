package tree

import (
	"strings"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// read handles a request that changes nothing but watches. It returns false for any other
// operation.
func (s *State) read(out *Output, reply *Reply, client Client, r *wire.Request) bool {
	known := true
	if r.Malformed || r.Null {
		known, reply.Code = isRead(r.Op), wire.MarshallingError
		return known
	}
	switch r.Op {
	case wire.OpExists:
		reply.Body, reply.Code = s.exists(client, r)
	case wire.OpGetData:
		reply.Body, reply.Code = s.getData(client, r)
	case wire.OpGetChildren:
		reply.Body, reply.Code = s.getChildren(client, r)
	case wire.OpGetChildren2:
		reply.Body, reply.Code = s.getChildren2(client, r)
	case wire.OpGetACL:
		reply.Body, reply.Code = s.getACL(client, r)
	case wire.OpGetEphemerals:
		reply.Body = s.getEphemerals(client, r)
	case wire.OpGetAllChildrenNumber:
		reply.Body, reply.Code = s.countBelow(client, r)
	case wire.OpMultiRead:
		s.multiRead(reply, client, r)
	case wire.OpSync:
		reply.Body = wire.PathBody(r.Path)
		if r.NoPath {
			reply.Body = wire.NullBody{}
		}
	case wire.OpWhoAmI:
		reply.Body = whoAmI(client)
	case wire.OpSetWatches, wire.OpSetWatches2:
		reply.Code = s.setWatches(out, client, r)
	case wire.OpCheckWatches, wire.OpRemoveWatches:
		reply.Code = s.changeWatches(client, r)
	default:
		known = false
	}
	return known
}

func isRead(op wire.Op) bool {
	switch op {
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2, wire.OpGetACL, wire.OpGetEphemerals,
		wire.OpGetAllChildrenNumber, wire.OpMultiRead, wire.OpSync, wire.OpWhoAmI,
		wire.OpSetWatches, wire.OpSetWatches2, wire.OpCheckWatches, wire.OpRemoveWatches:
		return true
	default:
		return false
	}
}

// exists sets its watch even if there is no node, and checks no ACL.
func (s *State) exists(client Client, r *wire.Request) (wire.Body, wire.Code) {
	if strings.ContainsRune(r.Path, 0) {
		return nil, wire.BadArguments
	}
	if r.Watch {
		s.data.add(r.Path, client.Conn)
	}
	n := s.nodes[r.Path]
	if n == nil {
		return nil, wire.NoNode
	}
	return wire.StatBody(n.stat()), wire.OK
}

// readable finds a node that the client may read.
func (s *State) readable(client Client, path string) (*node, wire.Code) {
	n := s.nodes[path]
	if n == nil {
		return nil, wire.NoNode
	}
	if !allowed(n.acl, wire.PermRead, client.IDs) {
		return nil, wire.NoAuth
	}
	return n, wire.OK
}

func (s *State) getData(client Client, r *wire.Request) (wire.Body, wire.Code) {
	n, code := s.readable(client, r.Path)
	if code != wire.OK {
		return nil, code
	}
	if r.Watch {
		s.data.add(r.Path, client.Conn)
	}
	return wire.DataBody{Data: n.data, Stat: n.stat()}, wire.OK
}

func (s *State) getChildren(client Client, r *wire.Request) (wire.Body, wire.Code) {
	n, code := s.readable(client, r.Path)
	if code != wire.OK {
		return nil, code
	}
	if r.Watch {
		s.children.add(r.Path, client.Conn)
	}
	return wire.NamesBody(n.children.list()), wire.OK
}

func (s *State) getChildren2(client Client, r *wire.Request) (wire.Body, wire.Code) {
	if _, code := s.getChildren(client, r); code != wire.OK {
		return nil, code
	}
	n := s.nodes[r.Path]
	return wire.NamesStatBody{Names: n.children.list(), Stat: n.stat()}, wire.OK
}

func (s *State) getACL(client Client, r *wire.Request) (wire.Body, wire.Code) {
	n := s.nodes[r.Path]
	if n == nil {
		return nil, wire.NoNode
	}
	if !allowed(n.acl, wire.PermRead|wire.PermAdmin, client.IDs) {
		return nil, wire.NoAuth
	}
	acl := n.acl
	if !allowed(acl, wire.PermAdmin, client.IDs) {
		acl = hideDigest(acl)
	}
	return wire.ACLBody{ACL: acl, Stat: n.stat()}, wire.OK
}

func (s *State) getEphemerals(client Client, r *wire.Request) wire.Body {
	names := wire.NamesBody{}
	owner := s.sessions[client.Session]
	if owner == nil {
		return names
	}
	prefix := r.Path
	// Java's trim removes all characters up to and including the space.
	if trimmed := strings.TrimFunc(prefix, func(c rune) bool { return c <= ' ' }); trimmed == "" || trimmed == "/" {
		prefix = ""
	}
	for _, path := range owner.ephemerals.cloned() {
		if strings.HasPrefix(path, prefix) {
			names = append(names, path)
		}
	}
	return names
}

// countBelow counts the descendants of a node.
func (s *State) countBelow(client Client, r *wire.Request) (wire.Body, wire.Code) {
	if _, code := s.readable(client, r.Path); code != wire.OK {
		return nil, code
	}
	if r.Path == "/" {
		return wire.IntBody(len(s.nodes) - 2), wire.OK
	}
	n := 0
	for path := range s.nodes {
		if strings.HasPrefix(path, r.Path+"/") {
			n++
		}
	}
	return wire.IntBody(n), wire.OK
}

// whoAmI lists the client's identities without secrets.
func whoAmI(client Client) wire.Body {
	ids := make(wire.IDsBody, 0, len(client.IDs))
	for _, id := range client.IDs {
		if id.Scheme == "digest" {
			id.ID, _, _ = strings.Cut(id.ID, ":")
		}
		ids = append(ids, id)
	}
	return ids
}
