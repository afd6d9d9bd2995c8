package notify

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// schema of the records. A newer one in the head is refused, never overwritten, up to one that no
// version will have.
const schema, lastSchema = 1, 1000

// maxRecord is how long the record of a slot is at most, in bytes, without episodes, and for each
// episode, and how long are the unknown fields of a head or a part. Texts have 300 bytes each,
// which JSON may escape.
const maxRecord = 16 << 10

// maxPart is how long a part is at most, in bytes: a little less than ZooKeeper takes in a request.
// A part that somebody else has written may be within that, and longer with the escapes of this
// version, which make six characters of one.
const maxPart, escaped = 1_000_000, 6

// head is the data of the node above those of the parts.
type head struct {
	Schema int    `json:"schema"`
	Sender string `json:"sender"`
	Term   int64  `json:"term"` // the token of its election
	Cursor int64  `json:"cursor"`

	unknown zkrec.Unknown
}

func (h head) encode() []byte { return h.unknown.Encode(h) }

// parseHead reads the head, which was last written by that transaction. The error is a
// *zkrec.SchemaError if a newer version may have written it. The head that comes with another
// error, say in a tree that was copied to this ensemble, has nothing but the cursor: what happens
// since it was written follows.
func parseHead(data []byte, written int64) (h head, err error) {
	h.unknown, err = decode(data, &h)
	switch {
	case err != nil:
	case h.Schema > schema && h.Schema <= lastSchema:
		return head{}, &zkrec.SchemaError{Found: h.Schema, Known: schema}
	case h.Schema < 0 || h.Schema > lastSchema:
		err = fmt.Errorf("%d is no schema", h.Schema)
	case h.Term < 0 || h.Cursor < 0 || max(h.Term, h.Cursor) > written:
		err = fmt.Errorf("the term %d or the cursor %d is no transaction before %d, which wrote the record", h.Term, h.Cursor, written)
	default:
		err = checkMore(h.unknown)
	}
	if err != nil {
		return head{Cursor: written}, err
	}
	return h, nil
}

// partRecord is the data of a part's node, with the records of slots as they are written, or read.
type partRecord[R any] struct {
	Schema int          `json:"schema"`
	Slots  map[string]R `json:"slots"`
}

func (p *part) encode() []byte { return p.unknown.Encode(partRecord[*record]{schema, p.slots}) }

// parse reads the part with that number. A message in flight when it was written may have been
// sent. The error is why a record in it, or all of it, was left out: the first one of those by
// name.
func (p *part) parse(number int, data []byte) (first error) {
	var stored partRecord[json.RawMessage]
	*p = newPart()
	leave := func(err error) {
		p.dirty, first = true, cmp.Or(first, err)
	}
	more, err := decode(data, &stored)
	if err != nil {
		leave(err)
		return first
	}
	if stored.Schema < 0 || stored.Schema > schema { // a newer version would have written the head, too
		leave(fmt.Errorf("%d is no schema below that of the head", stored.Schema))
		return first
	}
	if err := checkMore(more); err != nil {
		leave(err)
	} else {
		p.unknown = more
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
		p.add(slot, r)
		p.episodes += len(r.Episodes)
	}
	if len(data) > maxPart/escaped {
		if n := len(p.encode()); n > maxPart {
			*p = newPart()
			leave(fmt.Errorf("%d bytes, as this version writes them, are too many", n))
		}
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

// record holds facts about a slot.
type record struct {
	// Number and Rev are from the last failure that was taken in, and Created is the slot's: see
	// history.Entry and admin.Event. In a tree that was copied to another ensemble Created is 0 until
	// the slot is heard of.
	Created  int64      `json:"created,omitempty"`
	Number   int64      `json:"number,omitempty"`
	Rev      int64      `json:"rev,omitempty"`
	Retry    *retry     `json:"retry,omitempty"`
	Episodes []*episode `json:"episodes,omitempty"` // the oldest first
	// To is whom the job names, while there are episodes: it may be canceled before they are told.
	To map[string][]Kind `json:"to,omitempty"`

	unknown zkrec.Unknown
}

type recordFields record

// MarshalJSON implements json.Marshaler.
func (r *record) MarshalJSON() ([]byte, error) { return r.unknown.Encode((*recordFields)(r)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (r *record) UnmarshalJSON(data []byte) error {
	return r.unknown.Decode(data, (*recordFields)(r))
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
		if err := (*failure)(r.Retry).check(); err != nil {
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

// failure is a run that failed, or ticks that were missed.
type failure struct {
	Kind  Kind   `json:"kind"`
	ID    string `json:"id"`
	Tick  int64  `json:"tick"`
	At    int64  `json:"at"`
	Count int    `json:"count"`
	Text  string `json:"text,omitempty"`
	SID   string `json:"sid,omitempty"`

	unknown zkrec.Unknown // of the episode that it has begun, too
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

// retry is a failure that becomes one of an episode if another tick is run before it is retried.
type retry failure

// MarshalJSON implements json.Marshaler.
func (r *retry) MarshalJSON() ([]byte, error) { return r.unknown.Encode((*failure)(r)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (r *retry) UnmarshalJSON(data []byte) error { return r.unknown.Decode(data, (*failure)(r)) }

// episode is a row of failures. Times are in Unix milliseconds.
type episode struct {
	failure

	Last  int64            `json:"last"`            // the tick of the last failure
	Ended int64            `json:"ended,omitempty"` // 0 while it lasts
	Gone  bool             `json:"gone,omitempty"`  // it ended because the job was canceled
	Sent  map[string]phase `json:"sent,omitempty"`  // what each target was told

	sealed bool // somebody may have been told of its end: it does not continue
	idle   bool // nobody has to be told anything until it changes
}

type episodeFields episode

// MarshalJSON implements json.Marshaler.
func (ep *episode) MarshalJSON() ([]byte, error) {
	return ep.unknown.Encode((*episodeFields)(ep)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (ep *episode) UnmarshalJSON(data []byte) error {
	return ep.unknown.Decode(data, (*episodeFields)(ep))
}

// phase is how much of an episode a target was told.
type phase int

const (
	toldBegin phase = 1
	toldEnd   phase = 2
)

// decode reads a record, of which there may be none yet.
func decode(data []byte, record any) (unknown zkrec.Unknown, err error) {
	if len(data) > 0 {
		err = unknown.Decode(data, record)
	}
	return unknown, err
}

// checkMore refuses more unknown fields of a head, or a part, than a version may have added.
func checkMore(unknown zkrec.Unknown) error {
	if len(unknown) > maxRecord {
		return fmt.Errorf("%d bytes of unknown fields are too many", len(unknown))
	}
	return nil
}
