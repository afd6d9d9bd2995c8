package tree

import (
	"strings"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A node of the tree. Its data and ACL are replaced, never changed in place.
type node struct {
	data                []byte // nil if null
	acl                 []wire.ACL
	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	version, aversion   int32
	creates             int32 // children ever created: ZooKeeper's cversion inside the server
	owner               int64 // session of an ephemeral node, else 0
	children            javaSet[string]
}

func (n *node) stat() wire.Stat {
	present := int32(n.children.len())
	return wire.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
		Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Aversion: n.aversion,
		// To clients, cversion counts creates and deletes.
		Cversion:       2*n.creates - present,
		EphemeralOwner: n.owner,
		DataLength:     int32(len(n.data)),
		NumChildren:    present,
	}
}

// split returns a path's parent and its last element. The path must contain a slash. The parent of
// a top-level node is "".
func split(path string) (parent, child string) {
	slash := strings.LastIndexByte(path, '/')
	return path[:slash], path[slash+1:]
}

// validPath is ZooKeeper's rule for paths that are written to.
func validPath(path string) bool {
	if path == "/" {
		return true
	}
	if path == "" || path[0] != '/' || strings.HasSuffix(path, "/") {
		return false
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return strings.IndexFunc(path, badRune) < 0
}

// badRune reports whether a path must not contain r. That includes all characters beyond the basic
// plane, because Java sees them as surrogates.
func badRune(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// parentOf is ZooKeeper's rule for the path of a create or a delete: it has a parent.
func parentOf(path string) (string, wire.Code) {
	if !strings.Contains(path, "/") || strings.ContainsRune(path, 0) {
		return "", wire.BadArguments
	}
	parent, _ := split(path)
	return parent, wire.OK
}

// special reports whether a node cannot be deleted.
func special(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}
