package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// body builds the body of a reply from numbers of four bytes, texts behind their lengths, and
// bytes.
func body(parts ...any) []byte {
	var all []byte
	for _, part := range parts {
		switch part := part.(type) {
		case int:
			all = binary.BigEndian.AppendUint32(all, uint32(part))
		case string:
			all = binary.BigEndian.AppendUint32(all, uint32(len(part)))
			all = append(all, part...)
		case []byte:
			all = append(all, part...)
		}
	}
	return all
}

// replies are whole bodies by the type of the request, behind their headers. The vector's count, if
// there is one, comes first.
var replies = map[int32][]byte{
	opCreate:    body("/a"),
	opCreate2:   body("/a", make([]byte, statBytes)),
	opExists:    make([]byte, statBytes),
	opGetData:   body("data", make([]byte, statBytes)),
	opSetData:   make([]byte, statBytes),
	opSetACL:    make([]byte, statBytes),
	opGetACL:    body(2, 31, "world", "anyone", 1, "digest", "a:b", make([]byte, statBytes)),
	opChildren:  body(2, "a", "b"),
	opChildren2: body(2, "a", "b", make([]byte, statBytes)),
	opSync:      body("/a"),
	opMulti: body(opCheck, []byte{0}, 0, opSetData, []byte{0}, 0, make([]byte, statBytes), opCreate, []byte{0}, 0, "/b",
		opDelete, []byte{0}, 0, opFailed, []byte{0}, -2, -2, opFailed, []byte{1}, -1),
}

// A reply is passed on if the library finds all fields in it, and as many elements as their count
// says.
func TestRepliesAreWalkedThrough(t *testing.T) {
	t.Parallel()
	check := func(op int32, rest []byte) error {
		var r requests
		r.send(body(8, 7, int(op)))
		_, err := r.receive(append(body(16+len(rest), 7, 0, 0, 0), rest...))
		return err
	}
	for op, whole := range replies {
		if err := check(op, whole); err != nil {
			t.Errorf("a whole reply to a request of type %d: %v", op, err)
		}
		for n := range whole {
			if err := check(op, whole[:n]); !errors.Is(err, errMalformed) {
				t.Errorf("the first %d of %d bytes to a request of type %d: %v, want errMalformed", n, len(whole), op, err)
			}
		}
	}
	for _, op := range []int32{opChildren, opChildren2, opGetACL} {
		for _, count := range []uint32{200, 1 << 24, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
			counted := slices.Clone(replies[op])
			binary.BigEndian.PutUint32(counted, count)
			if err := check(op, counted); !errors.Is(err, errMalformed) {
				t.Errorf("a count of %d to a request of type %d: %v, want errMalformed", count, op, err)
			}
		}
	}
	if err := check(opMulti, body(opGetData, []byte{0}, 0, opFailed, []byte{1}, -1)); !errors.Is(err, errMalformed) {
		t.Errorf("a result of a read in a transaction: %v, want errMalformed", err)
	}
}

// All pings have one xid. A server that is slow for more than a third of a session answers several
// of them together, which is no reason to drop its connection.
func TestPingsAreAnsweredTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "data", 0)
		var events []EventKind
		conn := s.open(t, Config{}, func(ev Event) { events = append(events, ev.Kind) })
		var pings atomic.Int32
		s.ControlKeep(zkdev.OpPing, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "tested" {
				pings.Add(1)
			}
			return zkdev.Pass()
		})
		time.Sleep(granted * 65 / 100) // pings are sent after each third of the session, and it ends without an answer for two thirds
		if _, _, err := conn.Get(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		before := pings.Load()
		s.Control(zkdev.OpGetData, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(granted * 6 / 10) })
		if _, _, err := conn.Get(t.Context(), "/a"); err != nil {
			t.Errorf("Get of a slow server: %v", err)
		}
		synctest.Wait()
		if waited := pings.Load() - before; waited != 2 {
			t.Errorf("%d pings waited for the server, want 2", waited)
		}
		time.Sleep(granted)
		synctest.Wait()
		if len(events) != 1 || events[0] != Connected {
			t.Errorf("events %v, want that the connection lasts", events)
		}
	})
}

// The results of a bulk request are those that were asked for: as many, each of its kind, and
// nothing behind them.
func TestReadingsAreWalkedThrough(t *testing.T) {
	t.Parallel()
	reads := []Read{{Path: "/a"}, {Path: "/b", Children: true}, {Path: "/c"}}
	whole := []any{
		opGetData, []byte{0}, 0, "data", make([]byte, statBytes), opChildren, []byte{0}, 0, 2, "x", "y", opFailed, []byte{0}, -101, -101,
		opFailed, []byte{1}, -1,
	}
	walk := func(b []byte) ([]ReadResult, error) {
		w := walker{rest: b}
		results := w.readings(reads)
		return results, w.verdict("results")
	}
	all := body(whole...)
	if results, err := walk(all); err != nil || string(results[0].Data) != "data" || len(results[1].Names) != 2 || !errors.Is(results[2].Err, ErrNoNode) {
		t.Errorf("whole results: %+v, %v", results, err)
	}
	for n := range all {
		if _, err := walk(all[:n]); !errors.Is(err, errMalformed) {
			t.Errorf("the first %d of %d bytes: %v, want errMalformed", n, len(all), err)
		}
	}
	for what, changed := range map[string][]any{
		"another kind":   append([]any{opChildren, []byte{0}, 0, 0}, whole[5:]...),
		"a write":        append([]any{opSetData, []byte{0}, 0, make([]byte, statBytes)}, whole[5:]...),
		"too few":        append(slices.Clone(whole[:11]), whole[15:]...),
		"too many":       append(slices.Clone(whole[:11]), append(slices.Clone(whole[11:15]), whole[11:]...)...),
		"something more": append(slices.Clone(whole), 0),
		"a huge count":   append(slices.Clone(whole[:8]), 1<<30, "x"),
	} {
		if _, err := walk(body(changed...)); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v, want errMalformed", what, err)
		}
	}
}

// A transaction whose answer has another number of results than it has operations may have been
// applied.
func TestMultiWithOtherResults(t *testing.T) {
	t.Parallel()
	last := body(opFailed, []byte{1}, -1)
	for what, results := range map[string][]byte{
		"no result":     last,
		"one result":    append(body(opCheck, []byte{0}, 0), last...),
		"three results": append(body(opCheck, []byte{0}, 0, opDelete, []byte{0}, 0, opDelete, []byte{0}, 0), last...),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			s.have(t, "/a", "data", 0)
			conn := s.open(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				raw, err := s.dial(ctx, network, address)
				return &mangler{Conn: raw, change: func(n int, body []byte) []byte {
					if n != 1 {
						return body
					}
					return append(body[:headerBytes:headerBytes], results...)
				}}, err
			}}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			stats, err := conn.Multi(ctx, CheckOp("/a", 0), SetOp("/a", nil, 0))
			if stats != nil || !errors.Is(err, ErrUnclear) || !IsUnknown(err) {
				t.Errorf("%s for two operations: %v, %v; want ErrUnclear", what, stats, err)
			}
		})
	}
}
