package zkdev

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// frame is a request.
func frame(xid int32, op wire.Op, record string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(record)))
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	return append(binary.BigEndian.AppendUint32(b, uint32(op)), record...)
}

// arrivals sends requests at one instant and returns their records as they arrive, and when.
func arrivals(t *testing.T, order uint64, requests ...[]byte) (records []string, after []time.Duration) {
	t.Helper()
	late := []time.Duration{5 * time.Millisecond, time.Millisecond, 7*time.Millisecond + 1}
	near, far := newPipe("a", "zkdev", Latency{Order: order, There: func() time.Duration {
		d := late[0]
		late = append(late[1:], d)
		return d
	}})
	defer near.Close()
	sent := time.Now()
	for _, r := range requests {
		if _, err := near.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	for range requests {
		length, err := wire.ReadLength(far)
		if err != nil {
			t.Fatal(err)
		}
		message, err := wire.ReadMessage(far, length)
		if err != nil {
			t.Fatal(err)
		}
		records, after = append(records, string(message[8:])), append(after, time.Since(sent))
	}
	return records, after
}

// Messages sent at one instant arrive one by one, in an order that follows from their content.
func TestOrderIsNotThatOfTheSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []string
		for order := range uint64(10) {
			one, times := arrivals(t, order+1, frame(1, wire.OpDelete, "a"), frame(2, wire.OpCloseSession, ""), frame(3, wire.OpDelete, "b"), frame(4, wire.OpDelete, "ccc"))
			other, _ := arrivals(t, order+1, frame(1, wire.OpDelete, "ccc"), frame(2, wire.OpDelete, "b"), frame(3, wire.OpDelete, "a"), frame(4, wire.OpCloseSession, ""))
			if !slices.Equal(one, other) || len(one) != 4 || one[3] != "" {
				t.Errorf("order %d: %q, and sent the other way round %q; want the same, and the end of the session last", order, one, other)
			}
			all = append(all, strings.Join(one, ""))
			const ms = time.Millisecond
			if want := []time.Duration{5 * ms, 5*ms + Apart, 7*ms + Apart, 7*ms + 2*Apart}; !slices.Equal(times, want) {
				t.Errorf("order %d: arrive after %v, want %v", order, times, want)
			}
		}
		slices.Sort(all)
		if n := len(slices.Compact(all)); n < 2 {
			t.Errorf("10 numbers give %d orders", n)
		}
		asSent, _ := arrivals(t, 0, frame(1, wire.OpDelete, "b"), frame(2, wire.OpDelete, "a"))
		if want := []string{"b", "a"}; !slices.Equal(asSent, want) {
			t.Errorf("without an order: %q, want %q", asSent, want)
		}
	})
}

// A client tells the replies to setWatches by the order of sending.
func TestOrderKeepsThatOfSetWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for order := range uint64(10) {
			got, _ := arrivals(t, order+1, frame(-8, wire.OpSetWatches, "b"), frame(1, wire.OpDelete, "x"), frame(-8, wire.OpSetWatches, "a"))
			got = slices.DeleteFunc(got, func(record string) bool { return record == "x" })
			if want := []string{"b", "a"}; !slices.Equal(got, want) {
				t.Errorf("order %d: %q, want %q", order, got, want)
			}
		}
	})
}

// The lists of setWatches, which a client makes from a map, arrive sorted.
func TestOrderOfWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := func(paths ...string) string {
			b := binary.BigEndian.AppendUint32(nil, uint32(len(paths)))
			for _, path := range paths {
				b = append(binary.BigEndian.AppendUint32(b, uint32(len(path))), path...)
			}
			return string(b)
		}
		const zxid = "12345678"
		got, _ := arrivals(t, 1, frame(1, wire.OpSetWatches, zxid+list("/b", "/aa", "/")+list()+list("/d", "/c")))
		if want := zxid + list("/", "/b", "/aa") + list() + list("/c", "/d"); got[0] != want {
			t.Errorf("%q, want %q", got[0], want)
		}
		for _, broken := range []string{zxid, zxid + "\x00\x00\x00\x02\x00\x00", zxid + "\xff\xff\xff\xff\xff\xff\xff\xff"} {
			if got, _ := arrivals(t, 1, frame(1, wire.OpSetWatches, broken)); got[0] != broken {
				t.Errorf("%q arrives as %q", broken, got[0])
			}
		}
	})
}
