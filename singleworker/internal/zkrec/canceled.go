package zkrec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
)

// CanceledKept is for how long the remains of canceled jobs are kept, of the last MaxCanceled jobs,
// and of the last MaxPasts with their Past.
const (
	CanceledKept = 7 * 24 * time.Hour
	MaxCanceled  = 10_000
	MaxPasts     = 1000
)

// Canceled are the remains of a canceled job: the data of a sequential node below _canceled, which
// was created when the job was canceled.
type Canceled struct {
	Schema    int   `json:"schema"`
	Spec      Kept  `json:"spec"`
	Switch    Kept  `json:"switch,omitempty"` // with all times
	Watermark int64 `json:"watermark,omitempty"`
	History   int64 `json:"history,omitempty"` // the czxid of the history
	Deed      Kept  `json:"deed"`              // who did it, and why
}

// Past is the history of a canceled job, in a node of its own beside Canceled. A job with shards
// has none.
type Past struct {
	Schema int    `json:"schema"`
	Tick   Kept   `json:"tick,omitempty"`
	Pages  []Kept `json:"pages,omitempty"` // of the history

	Versions Kept `json:"versions,omitempty"` // with all times, also of a job with shards
}

// IsEmpty reports whether there is nothing to keep.
func (p Past) IsEmpty() bool { return len(p.Tick)+len(p.Pages)+len(p.Versions) == 0 }

// Kept is the data of a node, as a part of another record.
type Kept []byte

// MarshalJSON writes an object as it is, and any other data as text.
func (k Kept) MarshalJSON() ([]byte, error) {
	if strings.HasPrefix(string(k), "{") && json.Valid(k) {
		return k, nil
	}
	return json.Marshal(string(k))
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (k *Kept) UnmarshalJSON(data []byte) error {
	text := string(data)
	if !strings.HasPrefix(text, "{") {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	*k = Kept(text)
	return nil
}

// Canceled is the parent of the remains of canceled jobs.
func (t Tree) Canceled() string { return t.root + "/" + canceledNode }

// pastMark stands before the number in the name of a Past.
const pastMark = "h"

// NewCanceled is the beginnings of the paths of a Canceled and of its Past, before the number that
// ZooKeeper gives them. The job's node was created by transaction czxid.
func (t Tree) NewCanceled(job string, czxid int64) (canceled, past string) {
	canceled = fmt.Sprintf("%s/%s@%d-", t.Canceled(), job, czxid)
	return canceled, canceled + pastMark
}

// CanceledName is the name of a node below Canceled, taken apart.
type CanceledName struct {
	Job    string
	Czxid  int64
	Past   bool
	Number int64 // grows, over all names alike
}

// ParseCanceledName reads the name of a node below Canceled. ok is false for a node that was made
// manually.
func ParseCanceledName(name string) (n CanceledName, ok bool) {
	dash := strings.LastIndexByte(name, '-')
	at := strings.LastIndexByte(name[:max(dash, 0)], '@')
	if at < 0 {
		return n, false
	}
	digits, past := strings.CutPrefix(name[dash+1:], pastMark)
	czxid, bad := strconv.ParseInt(name[at+1:dash], 10, 64)
	number, worse := strconv.ParseInt(digits, 10, 32) // as ZooKeeper counts
	n = CanceledName{name[:at], czxid, past, number}
	return n, bad == nil && worse == nil && IsJob(n.Job)
}

// Encode returns the node's data.
func (c Canceled) Encode() []byte {
	c.Schema = Schema
	return mustJSON(c)
}

// ParseCanceled reads the node of a job that was canceled.
func ParseCanceled(data []byte) (c Canceled, err error) {
	if err = json.Unmarshal(data, &c); err == nil && c.Schema > Schema {
		err = &SchemaError{Found: c.Schema, Known: Schema}
	}
	if err == nil {
		err = CheckTime(c.Watermark)
	}
	if err != nil {
		return Canceled{}, fmt.Errorf("canceled job %s: %w", excerpt(data), err)
	}
	return c, nil
}

// Encode returns the node's data.
func (p Past) Encode() []byte {
	p.Schema = Schema
	return mustJSON(p)
}

// ParsePast reads the node of a Past. One that does not exist is empty.
func ParsePast(data []byte) (p Past, err error) {
	if len(data) == 0 {
		return Past{}, nil
	}
	if err = json.Unmarshal(data, &p); err == nil && p.Schema > Schema {
		err = &SchemaError{Found: p.Schema, Known: Schema}
	}
	if err != nil {
		return Past{}, fmt.Errorf("past of a job %s: %w", excerpt(data), err)
	}
	return p, nil
}

// Undeleted says, in the spec of a job that was canceled and brought back, which part of its
// history is of before. Who has read that need not read it again.
type Undeleted struct {
	Czxid   int64 `json:"czxid"`            // of the history before
	History Mark  `json:"history,omitzero"` // its end, if it came back as well
	// Run is the ID of the run that was open, and is the first entry that is not of before. It was
	// known to have begun.
	Run string `json:"run,omitempty"`

	unknown Unknown
}

type undeletedFields Undeleted

// MarshalJSON implements json.Marshaler.
func (u Undeleted) MarshalJSON() ([]byte, error) { return u.unknown.Encode(undeletedFields(u)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (u *Undeleted) UnmarshalJSON(data []byte) error {
	return u.unknown.Decode(data, (*undeletedFields)(u))
}

// Undeleted lists the nodes of a job that was canceled, at a time, as it comes back with a spec,
// which is its own but for the name. Its ticks begin after the creation of the nodes, and after
// those that were accounted for. A run that was open is lost. A past that cannot be read is left
// behind, unless a newer version has written it. That is a *SchemaError.
func (t Tree) Undeleted(spec Spec, c Canceled, p Past, at time.Time) (Spec, []Node, error) {
	spec.Since, spec.Former, spec.Done, spec.Layout, spec.Canceled, spec.Undeleted = 0, nil, nil, nil, false, &Undeleted{Czxid: c.History}
	begin := Tick{Watermark: c.Watermark}
	was, log, err := p.read()
	switch {
	case errors.As(err, new(*SchemaError)):
		return Spec{}, nil, err
	case err == nil && !p.IsEmpty():
		spec.Undeleted.History = log.Mark()
		if was.Open() {
			lost := was.Run
			lost.State, lost.Ended, lost.Error = history.StateLost, Milli(at), "the job was canceled during the run"
			spec.Undeleted.Run = lost.RunID
			log = log.Add(MaxCount, was.Watermark, Entry{Run: lost})
		}
		begin.History, begin.lasting = log.Mark(), was.lasting
	}
	name := spec.Job.Name
	nodes := t.NewJob(name, spec)
	if len(p.Versions) > 0 {
		nodes = append(nodes, Node{t.Versions(name), p.Versions})
	}
	slot := slices.IndexFunc(nodes, func(n Node) bool { return n.Path == t.Tick(name) })
	if slot < 0 {
		return spec, nodes, nil // the slots are made by who misses them
	}
	if begin != (Tick{}) {
		nodes[slot].Data = begin.Encode()
	}
	for k, page := range log.all() {
		switch path := t.HistoryPage(name, k); {
		case page.Rev == 0: // never written
		case k == 0:
			nodes[slices.IndexFunc(nodes, func(n Node) bool { return n.Path == path })].Data = log.Encode(k)
		default:
			nodes = append(nodes, Node{path, log.Encode(k)})
		}
	}
	return spec, nodes, nil
}

// read returns the last tick record and the history.
func (p Past) read() (last Tick, log Log, err error) {
	pages := make([][]byte, len(p.Pages))
	for i, data := range p.Pages {
		pages[i] = data
	}
	if last, err = ParseTick(p.Tick, time.Time{}); err == nil {
		log, err = ParseLog(pages)
	}
	if err != nil {
		return Tick{}, Log{}, err
	}
	return last, log.From(last.History), nil
}
