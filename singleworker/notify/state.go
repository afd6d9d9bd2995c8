package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The book in ZooKeeper: the head holds the cursor and names the sender, and each part has a node
// below it. Each write checks the head's version, and a new sender begins with writing the head: so
// a former one, which may not know yet that it is deposed, writes nothing more.

// schema of the records. A newer one in the head is refused, never overwritten, up to one that no
// version will have.
const schema, lastSchema = 1, 1000

// maxRecord is how long the record of a slot is at most, in bytes, without episodes, and for each
// episode. Texts have 300 bytes each, which JSON may escape.
const maxRecord = 16 << 10

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

// decode reads a record, of which there may be none yet.
func decode(data []byte, record any) error {
	if len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, record)
}

// parseHead reads the head, which was last written by that transaction. The error is a
// *zkrec.SchemaError if a newer version may have written it. The head that comes with another
// error, say in a tree that was copied to this ensemble, has nothing but the cursor: what happens
// since it was written follows.
func parseHead(data []byte, written int64) (h head, err error) {
	err = decode(data, &h)
	switch {
	case err != nil:
	case h.Schema > schema && h.Schema <= lastSchema:
		return head{}, &zkrec.SchemaError{Found: h.Schema, Known: schema}
	case h.Schema < 0 || h.Schema > lastSchema:
		err = fmt.Errorf("%d is no schema", h.Schema)
	case h.Term < 0 || h.Cursor < 0 || max(h.Term, h.Cursor) > written:
		err = fmt.Errorf("the term %d or the cursor %d is no transaction before %d, which wrote the record", h.Term, h.Cursor, written)
	}
	if err != nil {
		return head{Cursor: written}, err
	}
	return h, nil
}

// parse reads the part with that number. A message in flight when it was written may have been
// sent. The error is why a record in it, or all of it, was left out: the first one of those by
// name.
func (p *part) parse(number int, data []byte) (first error) {
	var stored struct {
		Schema int                        `json:"schema"`
		Slots  map[string]json.RawMessage `json:"slots"`
	}
	p.slots, p.episodes, p.dirty = make(map[string]*record), 0, false
	leave := func(err error) {
		p.dirty, first = true, cmp.Or(first, err)
	}
	if err := decode(data, &stored); err != nil {
		leave(err)
		return first
	}
	if stored.Schema < 0 || stored.Schema > schema { // a newer version would have written the head, too
		leave(fmt.Errorf("%d is no schema below that of the head", stored.Schema))
		return first
	}
	for _, slot := range slices.Sorted(maps.Keys(stored.Slots)) {
		r, err := parseRecord(stored.Slots[slot])
		if err == nil && partOf(slot) != number {
			err = fmt.Errorf("it belongs to part %d", partOf(slot))
		}
		if err != nil {
			leave(fmt.Errorf("the record of %q: %w", firstLine(slot), err))
			continue
		}
		p.slots[slot] = r
		p.episodes += len(r.Episodes)
	}
	return first
}

// copied takes in that no sender of this ensemble has written the part: each of them writes it
// after it was created. The transactions in it are others'.
func (p *part) copied() {
	for _, r := range p.slots {
		r.Created, p.dirty = 0, true
	}
}

// parseRecord reads the record of a slot. The error is why no sender can have written it.
func parseRecord(data []byte) (*record, error) {
	r := &record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	switch {
	case len(data) > maxRecord*(1+len(r.Episodes)):
		return nil, fmt.Errorf("%d bytes with %d episodes are too many", len(data), len(r.Episodes))
	case min(r.Created, r.Number, r.Rev) < 0:
		return nil, fmt.Errorf("entry %d, of write %d of history %d, does not exist", r.Number, r.Rev, r.Created)
	case (&job.Job{Name: "job", Schedule: "@daily", Notify: r.To}).Validate() != nil:
		return nil, errors.New("no job names such targets")
	}
	if r.Retry != nil {
		if err := r.Retry.check(); err != nil {
			return nil, err
		}
	}
	for _, ep := range r.Episodes {
		if ep == nil {
			return nil, errors.New("an episode is null")
		}
		err := cmp.Or(ep.check(), zkrec.CheckTime(ep.Last), zkrec.CheckTime(ep.Ended))
		for _, told := range ep.Sent {
			if told < 0 || told > toldEnd {
				err = fmt.Errorf("%d says nothing of what was told", told)
			}
		}
		if err != nil {
			return nil, err
		}
		ep.sealed = ep.Ended != 0
	}
	return r, nil
}

// check returns why no sender can have written the failure, and makes its texts such as may be
// sent.
func (f *failure) check() error {
	f.ID, f.Text, f.SID = firstLine(f.ID), firstLine(f.Text), firstLine(f.SID)
	switch {
	case f.Kind == Recovered || f.Kind.Check() != nil:
		return fmt.Errorf("%q is no kind of failure", firstLine(string(f.Kind)))
	case f.Count < 0 || f.Count > math.MaxInt32:
		return fmt.Errorf("%d is no count", f.Count)
	}
	return cmp.Or(zkrec.CheckTime(f.Tick), zkrec.CheckTime(f.At))
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
