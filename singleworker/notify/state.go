package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The book in ZooKeeper: the head holds the cursor and names the sender, and each part has a node below it. Each write
// checks the head's version, and a new sender begins with writing the head: so a former one, which may not know yet that
// it is deposed, writes nothing more.

// schema of the records. A newer one is refused, never overwritten.
const schema = 1

// errDeposed means that another sender has written.
var errDeposed = errors.New("another instance sends the notifications now")

type head struct {
	Schema int    `json:"schema"`
	Sender string `json:"sender"`
	Term   int64  `json:"term"` // the token of its election
	Cursor int64  `json:"cursor"`
}

type partRecord struct {
	Schema int                `json:"schema"`
	Slots  map[string]*record `json:"slots"`
}

// store is the book's nodes, as one sender knows them.
type store struct {
	conn     *zkconn.Conn
	tree     zkrec.Tree
	head     head
	version  int32
	versions [parts]int32 // -1: there is no node
}

func partPath(tree zkrec.Tree, i int) string { return tree.Notices() + "/" + strconv.Itoa(i) }

// load reads the book. From now on no former sender writes.
func (s *store) load(ctx context.Context, b *book, sender string, term int64) error {
	return s.conn.Retry(ctx, func() error {
		if err := s.conn.EnsureRoot(ctx, s.tree.Notices()); err != nil {
			return err
		}
		data, stat, err := s.conn.Get(ctx, s.tree.Notices())
		if err != nil {
			return err
		}
		s.version = stat.Version
		if err := decode(s.tree.Notices(), data, &s.head, &s.head.Schema); err != nil {
			return err
		}
		if s.head.Term > term {
			return errDeposed
		}
		s.head.Schema, s.head.Sender, s.head.Term, b.cursor = schema, sender, term, s.head.Cursor
		if err := s.write(ctx, s.tree.Notices(), s.head, &s.version); err != nil {
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
			if err := b.parts[i].parse(reads[i].Path, r.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// decode reads a record, of which there may be none yet.
func decode(path string, data []byte, record any, version *int) error {
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, record); err != nil {
		return &zkrec.UnreadableError{Path: path, Err: err}
	}
	if *version > schema {
		return &zkrec.UnreadableError{Path: path, Err: fmt.Errorf("schema %d is newer than %d, which this version knows: upgrade it", *version, schema)}
	}
	return nil
}

// parse reads a part. What was being told when it was written may have been told.
func (p *part) parse(path string, data []byte) error {
	var stored partRecord
	if err := decode(path, data, &stored, &stored.Schema); err != nil {
		return err
	}
	p.slots, p.episodes, p.dirty = make(map[string]*record), 0, false
	for slot, r := range stored.Slots {
		if r == nil {
			continue
		}
		p.slots[slot] = r
		p.episodes += len(r.Episodes)
		for _, ep := range r.Episodes {
			ep.sealed = ep.Ended != 0
		}
	}
	return nil
}

// save writes the parts that have changed, and then the cursor up to which they are complete. With prove it writes in any
// case: a sender that has lost ZooKeeper and does not know it yet does not get further.
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
	return s.retried(ctx, s.tree.Notices(), s.head, &s.version)
}

func (s *store) savePart(ctx context.Context, i int, p *part) error {
	path := partPath(s.tree, i)
	if s.versions[i] >= 0 {
		return s.retried(ctx, path, partRecord{schema, p.slots}, &s.versions[i])
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
	return s.retried(ctx, path, partRecord{schema, p.slots}, &s.versions[i])
}

func (s *store) retried(ctx context.Context, path string, record any, version *int32) error {
	return s.conn.Retry(ctx, func() error { return s.write(ctx, path, record, version) })
}

// write writes a record at a version. An earlier call may have written it, if its answer was lost.
func (s *store) write(ctx context.Context, path string, record any, version *int32) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
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
