package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The book in ZooKeeper: the head holds the cursor and names the sender, and each part has a node
// below it. Each write checks the head's version, and a new sender begins with writing the head: so
// a former one, which may not know yet that it is deposed, writes nothing more.

// errDeposed means that another sender has written.
var errDeposed = errors.New("another instance sends the notifications now")

// store is the book's nodes, as one sender knows them.
type store struct {
	conn     *zkconn.Conn
	tree     zkrec.Tree
	head     head
	version  int32
	versions [parts]int32 // -1: there is no node
}

func partPath(tree zkrec.Tree, i int) string { return tree.Notices() + "/" + strconv.Itoa(i) }

// load reads the book. From now on no former sender writes. Of what no sender can have written it
// begins a new one, and says why in unreadable, by its path: once, because it is written over.
func (s *store) load(ctx context.Context, b *book, sender string, term int64) (unreadable map[string]error, err error) {
	unreadable = make(map[string]error)
	return unreadable, s.conn.Retry(ctx, func() error {
		if err := s.conn.EnsureRoot(ctx, s.tree.Notices()); err != nil {
			return err
		}
		data, stat, err := s.conn.Get(ctx, s.tree.Notices())
		if err != nil {
			return err
		}
		s.version = stat.Version
		s.head, err = parseHead(data, stat.Mzxid)
		switch {
		case errors.As(err, new(*zkrec.SchemaError)):
			return &zkrec.UnreadableError{Path: s.tree.Notices(), Err: err}
		case err != nil:
			unreadable[s.tree.Notices()] = err
		case s.head.Term > term:
			return errDeposed
		}
		if s.head.Cursor == 0 { // nobody has sent anything yet
			s.head.Cursor = stat.Mzxid
		}
		s.head.Schema, s.head.Sender, s.head.Term, b.cursor = schema, sender, term, s.head.Cursor
		if err := s.write(ctx, s.tree.Notices(), s.head.encode(), &s.version); err != nil {
			return err
		}
		reads := make([]zkconn.Read, parts)
		for i := range reads {
			reads[i].Path = partPath(s.tree, i)
		}
		for i, r := range s.conn.ReadMany(ctx, reads) {
			if s.versions[i] = r.Stat.Version; errors.Is(r.Err, zkconn.ErrNoNode) {
				s.versions[i] = -1
			} else if r.Err != nil {
				return r.Err
			}
			if err := b.parts[i].parse(i, r.Data); err != nil {
				unreadable[reads[i].Path] = err
			}
			if r.Stat.Version == 0 || unreadable[s.tree.Notices()] != nil {
				b.parts[i].copied()
			}
		}
		return nil
	})
}

// save writes the parts that have changed, and then the cursor up to which they are complete. With
// prove it writes in any case: a sender that has lost ZooKeeper and does not know it yet does not
// get further.
func (s *store) save(ctx context.Context, b *book, prove bool) error {
	for i := range b.parts {
		p := &b.parts[i]
		if !p.dirty {
			continue
		}
		if err := s.savePart(ctx, i, p); err != nil {
			return err
		}
		p.dirty = false
	}
	if !b.resuming {
		prove, s.head.Cursor = prove || b.cursor != s.head.Cursor, b.cursor
	}
	if !prove {
		return nil
	}
	return s.retried(ctx, s.tree.Notices(), s.head.encode(), &s.version)
}

func (s *store) savePart(ctx context.Context, i int, p *part) error {
	path := partPath(s.tree, i)
	if s.versions[i] >= 0 {
		return s.retried(ctx, path, p.encode(), &s.versions[i])
	}
	err := s.conn.Retry(ctx, func() error {
		_, err := s.conn.Multi(ctx, zkconn.CheckOp(s.tree.Notices(), s.version), zkconn.CreateOp(path, nil))
		if errors.Is(err, zkconn.ErrNodeExists) {
			return nil // by an attempt whose answer was lost: the version is checked below
		}
		return deposed(err)
	})
	if err != nil {
		return err
	}
	s.versions[i] = 0
	return s.retried(ctx, path, p.encode(), &s.versions[i])
}

func (s *store) retried(ctx context.Context, path string, data []byte, version *int32) error {
	return s.conn.Retry(ctx, func() error { return s.write(ctx, path, data, version) })
}

// write writes a record at a version. An earlier call may have written it, if its answer was lost.
func (s *store) write(ctx context.Context, path string, data []byte, version *int32) error {
	ops := []zkconn.Op{zkconn.SetOp(path, data, *version)}
	if path != s.tree.Notices() {
		ops = append(ops, zkconn.CheckOp(s.tree.Notices(), s.version))
	}
	stats, err := s.conn.Multi(ctx, ops...)
	if err == nil {
		*version = stats[0].Version
		return nil
	}
	if errors.Is(err, zkconn.ErrBadVersion) {
		there, stat, readErr := s.conn.Get(ctx, path)
		if readErr != nil {
			return readErr
		}
		if stat.Version == *version+1 && bytes.Equal(there, data) {
			*version = stat.Version
			return nil
		}
	}
	return deposed(err)
}

// deposed says so if another sender has written, or the book was deleted.
func deposed(err error) error {
	if errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) {
		return fmt.Errorf("%w: %w", errDeposed, err)
	}
	return err
}
