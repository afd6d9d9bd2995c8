package tree

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// ErrUnsupported is returned for data with a container, or a node that has a time to live.
var ErrUnsupported = errors.New("a container, or a node that has a time to live, which this server does not have")

func unsupported(path string) error { return fmt.Errorf("%s is %w", path, ErrUnsupported) }

// Image returns the content of a snapshot. The state must not change until the nodes were taken.
func (s *State) Image() (*txnlog.Snapshot, iter.Seq[txnlog.Node]) {
	image := &txnlog.Snapshot{Sessions: map[int64]time.Duration{}, ACLs: map[int64][]txnlog.ACL{}}
	for id, of := range s.sessions {
		image.Sessions[id] = of.timeout
	}
	keys := map[string]int64{fmt.Sprint(worldACL(wire.PermAll)): txnlog.OpenACL}
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(s.nodes)), func(path string) bool { return path == "/" })
	lists := make([]int64, len(paths))
	for i, path := range paths {
		acl := s.nodes[path].acl
		text := fmt.Sprint(acl)
		if _, ok := keys[text]; !ok {
			keys[text] = int64(len(keys))
			image.ACLs[keys[text]] = loggedACL(acl)
		}
		lists[i] = keys[text]
	}
	return image, func(yield func(txnlog.Node) bool) {
		for i, path := range paths {
			n := s.nodes[path]
			if !yield(txnlog.Node{
				Path: path, Data: n.data, Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
				Ctime: time.UnixMilli(n.ctime), Mtime: time.UnixMilli(n.mtime),
				Version: n.version, Born: n.creates, Aversion: n.aversion, ACL: lists[i], Owner: n.owner,
			}) {
				return
			}
		}
	}
}

// Load returns the state of a server that starts with a snapshot, which was begun at a zxid. Replay
// takes it on, and Settle completes that.
func Load(now time.Time, tick time.Duration, zxid int64, image *txnlog.Snapshot, nodes []txnlog.Node) (*State, error) {
	s := New(now, tick)
	s.last, s.taken = zxid, zxid
	for id, timeout := range image.Sessions {
		s.addSession(id, timeout)
	}
	for i := range nodes {
		from := &nodes[i]
		if vanishes(from.Owner) {
			return nil, unsupported(from.Path)
		}
		n := s.nodes[from.Path] // New has made the root, and ZooKeeper's own
		if n == nil {
			parent, name, ok := splitLogged(from.Path)
			if !ok || s.nodes[parent] == nil {
				continue // was deleted while the snapshot was written, and the log says so
			}
			n = new(node)
			s.nodes[from.Path] = n
			s.nodes[parent].children.add(name, hashString(name))
		}
		n.data, n.owner = from.Data, from.Owner
		n.acl = worldACL(wire.PermAll)
		if from.ACL != txnlog.OpenACL {
			n.acl = readACL(image.ACLs[from.ACL])
		}
		n.czxid, n.mzxid, n.pzxid = from.Czxid, from.Mzxid, from.Pzxid
		n.ctime, n.mtime = from.Ctime.UnixMilli(), from.Mtime.UnixMilli()
		n.version, n.creates, n.aversion = from.Version, from.Born, from.Aversion
		if of := s.sessions[n.owner]; of != nil {
			of.ephemerals.add(from.Path, hashString(from.Path))
		}
	}
	return s, nil
}

// vanishes reports whether a node's owner is the mark of a node that the server deletes by itself.
func vanishes(owner int64) bool {
	const container, ttl = -1 << 63, 0xff
	return owner == container || owner>>56&0xff == ttl
}

// Renew makes the state the one of a restored server, which begins an epoch. All data is as if the
// restore had written it: an owner whose record is there again must not go on with the token that
// it had when another owner, who is forgotten, has had a higher one since. No session goes on: a
// client whose session did would not notice that its writes since then are gone.
func (s *State) Renew(epoch int64) {
	clear(s.sessions)
	s.BeginEpoch(epoch)
	s.Settle()
	for _, n := range s.nodes {
		n.mzxid = s.last
	}
}

// Settle deletes the ephemeral nodes whose session has ended, as ZooKeeper does when it starts:
// logs before version 3.6 do not list them.
func (s *State) Settle() {
	for _, path := range slices.Sorted(maps.Keys(s.nodes)) {
		if n := s.nodes[path]; n.owner != 0 && s.sessions[n.owner] == nil {
			s.replayDelete(path)
		}
	}
}
