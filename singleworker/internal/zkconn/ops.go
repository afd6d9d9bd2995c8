package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Stat is a node's metadata.
type Stat struct {
	Czxid          int64 // transaction that created the node
	Mzxid          int64 // transaction that last changed its data
	Pzxid          int64 // transaction that last created or deleted a child
	Version        int32 // number of changes of its data
	Cversion       int32 // number of creations and deletions of children
	NumChildren    int
	EphemeralOwner int64     // session that owns an ephemeral node; else 0
	Ctime          time.Time // creation, on the server's clock
	Mtime          time.Time // last change of the data, on the server's clock
	Created        string    // path of the node, in the answer to a CreateSequentialOp; nothing else is in that
}

// Ephemeral reports whether a session holds the node, which goes with it.
func (s Stat) Ephemeral() bool {
	return s.EphemeralOwner != 0 && s.EphemeralOwner != math.MinInt64 // that of a container
}

func statOf(s *zk.Stat) Stat {
	if s == nil {
		return Stat{}
	}
	return Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, Pzxid: s.Pzxid, Version: s.Version, Cversion: s.Cversion, NumChildren: int(s.NumChildren),
		EphemeralOwner: s.EphemeralOwner, Ctime: time.UnixMilli(s.Ctime), Mtime: time.UnixMilli(s.Mtime),
	}
}

// Get reads a node.
func (c *Conn) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	return c.get(ctx, path, false)
}

// GetW reads a node and watches it: its next change or deletion is reported as an event. At most
// one such watch is set per node.
func (c *Conn) GetW(ctx context.Context, path string) ([]byte, Stat, error) {
	return c.get(ctx, path, true)
}

// full is a path with the chroot, which has the root for "/".
func (c *Conn) full(path string) string {
	if path == "/" && c.chroot != "" {
		return c.chroot
	}
	return c.chroot + path
}

func (c *Conn) get(ctx context.Context, path string, watched bool) ([]byte, Stat, error) {
	var data []byte
	var stat *zk.Stat
	full := c.full(path)
	err := c.call(ctx, "get", path, func(s *session) (err error) {
		err = s.watching(watch{full, false}, watched, func(set bool) error {
			if set {
				data, stat, _, err = s.zk.GetW(full)
			} else {
				data, stat, err = s.zk.Get(full)
			}
			return err
		})
		return err
	})
	if err != nil {
		return nil, Stat{}, err
	}
	return data, statOf(stat), nil
}

// Children lists the names of a node's children, in no particular order.
func (c *Conn) Children(ctx context.Context, path string) ([]string, Stat, error) {
	return c.children(ctx, path, false)
}

// ChildrenW lists a node's children and watches the list; see GetW.
func (c *Conn) ChildrenW(ctx context.Context, path string) ([]string, Stat, error) {
	return c.children(ctx, path, true)
}

func (c *Conn) children(ctx context.Context, path string, watched bool) ([]string, Stat, error) {
	var names []string
	var stat *zk.Stat
	full := c.full(path)
	err := c.call(ctx, opNameChildren, path, func(s *session) (err error) {
		err = s.watching(watch{full, true}, watched, func(set bool) error {
			if set {
				names, stat, _, err = s.zk.ChildrenW(full)
			} else {
				names, stat, err = s.zk.Children(full)
			}
			return err
		})
		return err
	})
	if err != nil {
		return nil, Stat{}, err
	}
	return names, statOf(stat), nil
}

// Sync makes the connected server catch up with the leader: reads after it are at least as recent
// as the call.
func (c *Conn) Sync(ctx context.Context, path string) error {
	return c.call(ctx, "sync", path, func(s *session) error {
		_, err := s.zk.Sync(c.chroot + path)
		return err
	})
}

// Exists reads a node's Stat; ok is false if there is no such node.
func (c *Conn) Exists(ctx context.Context, path string) (stat Stat, ok bool, err error) {
	var found bool
	var answer *zk.Stat
	err = c.call(ctx, "exists", path, func(s *session) (err error) {
		found, answer, err = s.zk.Exists(c.chroot + path)
		return err
	})
	if err != nil || !found {
		return Stat{}, false, err
	}
	return statOf(answer), true, nil
}

// CreateEphemeralSequential creates a node that lives as long as the session and returns its path:
// prefix and ten digits that increase with every node created below the same parent. If the reply
// is lost, the node may exist under an unknown name: use a unique prefix, so that it can be found.
func (c *Conn) CreateEphemeralSequential(ctx context.Context, prefix string, data []byte) (string, error) {
	if err := c.openAt(prefix); err != nil {
		return "", err
	}
	var created string
	err := c.call(ctx, "create", prefix, func(s *session) (err error) {
		created, err = s.zk.Create(c.chroot+prefix, data, zk.FlagEphemeral|zk.FlagSequence, c.aclAt(prefix))
		return err
	})
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(created, c.chroot), nil
}

// Op is one operation of a transaction.
type Op struct {
	code    int32
	path    string
	data    []byte
	version int32
	flags   int32 // of a create
}

// opNames are the operations of a transaction in errors.
var opNames = map[int32]string{opCreate: OpNameCreate, opSetData: OpNameSet, opDelete: OpNameDelete, opCheck: "check"}

// Size is the approximate size of the operation in a request, in bytes.
func (c *Conn) Size(op Op) int {
	const overhead, entry = 100, 12 // headers, version; numbers of an ACL's entry
	size := len(c.chroot) + len(op.path) + len(op.data) + overhead
	if op.code == opCreate {
		for _, g := range c.aclAt(op.path) {
			size += len(g.Scheme) + len(g.ID) + entry
		}
	}
	return size
}

// CreateOp creates a persistent node.
func CreateOp(path string, data []byte) Op { return Op{code: opCreate, path: path, data: data} }

// CreateEphemeralOp creates a node that lives as long as the session.
func CreateEphemeralOp(path string, data []byte) Op {
	return Op{code: opCreate, path: path, data: data, flags: zk.FlagEphemeral}
}

// CreateSequentialOp creates a persistent node whose path is prefix and ten digits, which increase
// with every node created below the same parent. So it is not refused because of others that do the
// same.
func CreateSequentialOp(prefix string, data []byte) Op {
	return Op{code: opCreate, path: prefix, data: data, flags: zk.FlagSequence}
}

// AnyVersion matches every version of a node.
const AnyVersion int32 = -1

// SetOp changes a node's data if the version matches.
func SetOp(path string, data []byte, version int32) Op {
	return Op{code: opSetData, path: path, data: data, version: version}
}

// DeleteOp deletes a node if the version matches and it has no children.
func DeleteOp(path string, version int32) Op {
	return Op{code: opDelete, path: path, version: version}
}

// CheckOp fails the transaction unless the node's version matches.
func CheckOp(path string, version int32) Op {
	return Op{code: opCheck, path: path, version: version}
}

// CheckOps are CheckOp for several nodes, by path.
func CheckOps(versions iter.Seq2[string, int32]) (ops []Op) {
	for path, version := range versions {
		ops = append(ops, CheckOp(path, version))
	}
	return ops
}

// Path is the path of the node.
func (op Op) Path() string { return op.path }

// SameCheck reports whether both operations are the same CheckOp.
func (op Op) SameCheck(other Op) bool {
	return op.code == opCheck && other.code == opCheck && op.path == other.path && op.version == other.version
}

// RefusedBy is why the server refuses the operation if its node is as it was read, or nil if that
// does not tell.
func (op Op) RefusedBy(read ReadResult) error {
	var why error
	switch found := read.Err == nil; {
	case errors.Is(read.Err, ErrNoNode) && op.code != opCreate:
		why = ErrNoNode
	case found && op.code == opCreate:
		why = ErrNodeExists
	case found && op.version != AnyVersion && op.version != read.Stat.Version:
		why = ErrBadVersion
	default:
		return nil
	}
	return &OpError{Op: opNames[op.code], Path: op.path, Err: why}
}

// request is the operation as the library takes it.
func (op Op) request(c *Conn) any {
	path := c.chroot + op.path
	switch op.code {
	case opCreate:
		return &zk.CreateRequest{Path: path, Data: op.data, Acl: c.aclAt(op.path), Flags: op.flags}
	case opSetData:
		return &zk.SetDataRequest{Path: path, Data: op.data, Version: op.version}
	case opDelete:
		return &zk.DeleteRequest{Path: path, Version: op.version}
	default:
		return &zk.CheckVersionRequest{Path: path, Version: op.version}
	}
}

// MultiError is returned when a transaction was refused; none of it was applied. It wraps the
// *OpError of the operation that failed.
type MultiError struct {
	Index int // of that operation
	Err   error
}

func (e *MultiError) Error() string { return fmt.Sprintf("operation %d: %v", e.Index, e.Err) }

func (e *MultiError) Unwrap() error { return e.Err }

// MultiOn is Multi for operations that rest on a reading of the node at path, or of nodes below it,
// when transaction czxid had created that node. It changes nothing of another node that has taken
// its place, with ErrBadVersion, or has come to it since. Versions do not tell the two, for they
// begin at 0 again, and a transaction may be long on its way. So an ephemeral node is created below
// the node first, which the transaction deletes. It is the first of the operations that a
// MultiError counts, and goes with the session if there was no answer.
func (c *Conn) MultiOn(ctx context.Context, path string, czxid int64, ops ...Op) ([]Stat, error) {
	return c.MultiOnAll(ctx, []On{{Path: path, Czxid: czxid}}, ops...)
}

// ProofPath is the path of an ephemeral node that proves that the node at path is the one that was
// read.
func ProofPath(path, id string) string { return path + "/_proof-" + id }

// On is a node that was read.
type On struct {
	Path  string
	Czxid int64 // of the transaction that had created it
	// Below is where the ephemeral node is created: a node below Path that the same transaction
	// created, or a later one. Who may not create nodes at Path may be allowed to there. Default:
	// Path.
	Below string
}

// MultiOnAll is MultiOn for readings of several nodes, or of none.
func (c *Conn) MultiOnAll(ctx context.Context, of []On, ops ...Op) ([]Stat, error) {
	var proofs []Op
	var err error
	for i := 0; i < len(of) && err == nil; i++ {
		path := of[i].Path
		proof := ProofPath(cmp.Or(of[i].Below, path), c.session.Load().chance.ID("proof of "+path)) // each call makes another, for an earlier transaction may be on its way
		// Nothing is in it, so it is created even if InheritACL has found that the connection is to
		// create no nodes.
		err = c.call(ctx, "create", proof, func(s *session) error {
			_, err := s.zk.Create(c.chroot+proof, nil, zk.FlagEphemeral, c.aclAt(proof))
			return err
		})
		if err != nil {
			break
		}
		proofs = append(proofs, DeleteOp(proof, AnyVersion))
		var stat Stat
		var found bool
		if stat, found, err = c.Exists(ctx, path); err == nil && (!found || stat.Czxid != of[i].Czxid) {
			err = &OpError{Op: "check", Path: path, Err: ErrBadVersion}
		}
	}
	if err == nil {
		var stats []Stat
		if stats, err = c.Multi(ctx, append(slices.Clip(proofs), ops...)...); err == nil {
			return stats[len(proofs):], nil
		}
	}
	for i := 0; i < len(proofs) && !IsUnknown(err); i++ {
		proof := proofs[i].path
		_ = c.call(ctx, "delete", proof, func(s *session) error { return s.zk.Delete(c.chroot+proof, AnyVersion) })
	}
	return nil, err
}

// Multi applies all operations or none; there must be at least one. For each SetOp, the result has
// the node's Stat at the same index, and for each CreateSequentialOp its path. If the server
// refuses the transaction, the error is a *MultiError.
func (c *Conn) Multi(ctx context.Context, ops ...Op) ([]Stat, error) {
	requests := make([]any, len(ops))
	for i, op := range ops {
		if err := c.openAt(op.path); err != nil && op.code == opCreate {
			return nil, err
		}
		requests[i] = op.request(c)
	}
	var answers []zk.MultiResponse
	err := c.call(ctx, "multi", ops[0].path, func(s *session) (err error) {
		answers, err = s.zk.Multi(requests...)
		return err
	})
	if IsUnknown(err) {
		return nil, err // the library may still write to answers
	}
	if err != nil {
		for i, op := range ops {
			if i < len(answers) && answers[i].Error != nil {
				err := opError(opNames[op.code], op.path, answers[i].Error)
				if IsUnknown(err) {
					return nil, err
				}
				return nil, &MultiError{Index: i, Err: err}
			}
		}
		return nil, err
	}
	if len(answers) != len(ops) {
		return nil, &OpError{Op: "multi", Path: ops[0].path, Err: fmt.Errorf(
			"%w: %d results for %d operations", ErrUnclear, len(answers), len(ops))}
	}
	stats := make([]Stat, len(answers))
	for i, op := range ops {
		stats[i] = statOf(answers[i].Stat)
		if op.flags&zk.FlagSequence != 0 {
			stats[i].Created = strings.TrimPrefix(answers[i].String, c.chroot)
		}
	}
	return stats, nil
}
