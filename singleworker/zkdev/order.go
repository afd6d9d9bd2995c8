package zkdev

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// sort puts the parcels that were sent at the same instant as the first one in the order that
// Latency.Order asks for. It is called when the first one arrives: no other is sent then. Each gets
// the place, and the time of arrival, of the one that it replaces. The caller holds mu.
func (h *half) sort() {
	first, n, end := h.travels[0], 0, h.arrived
	for n < len(h.travels) && h.travels[n].sent.Equal(first.sent) && h.travels[n].whole {
		end += h.travels[n].length
		n++
	}
	if n < 2 {
		return
	}
	writes, rest := make([]write, n), bytes.Clone(h.buf[h.arrived:end])
	for i := range writes {
		writes[i].bytes, rest = rest[:h.travels[i].length], rest[h.travels[i].length:]
		writes[i].rank = rank(h.order, writes[i].bytes)
	}
	slices.SortStableFunc(writes, func(a, b write) int { return cmp.Compare(a.rank, b.rank) })
	to := h.buf[:h.arrived]
	for i, w := range writes {
		to = append(to, w.bytes...)
		h.travels[i].length, h.travels[i].whole = len(w.bytes), false // it has its place
	}
}

// canonical sorts the lists of setWatches requests in place, which the client makes from a map.
func canonical(requests []byte) {
	const opAt, listsAt = 8, 20 // behind the length, the xid, the type and a zxid
	for len(requests) >= listsAt {
		length := lengthBytes + int(binary.BigEndian.Uint32(requests))
		if length > len(requests) || length < listsAt {
			return
		}
		if wire.Op(binary.BigEndian.Uint32(requests[opAt:])) == wire.OpSetWatches {
			for rest := requests[listsAt:length]; len(rest) >= lengthBytes; {
				rest = sortList(rest)
			}
		}
		requests = requests[length:]
	}
}

// sortList sorts a list of strings in place and returns the bytes behind it, or nil if it is
// malformed.
func sortList(list []byte) (rest []byte) {
	rest = list[lengthBytes:]
	var texts [][]byte // with their lengths
	for range binary.BigEndian.Uint32(list) {
		if len(rest) < lengthBytes || len(rest)-lengthBytes < int(binary.BigEndian.Uint32(rest)) {
			return nil
		}
		end := lengthBytes + int(binary.BigEndian.Uint32(rest))
		texts = append(texts, bytes.Clone(rest[:end]))
		rest = rest[end:]
	}
	slices.SortFunc(texts, bytes.Compare)
	to := list[lengthBytes:lengthBytes]
	for _, text := range texts {
		to = append(to, text...)
	}
	return rest
}

// A write is the requests that a client has written with one call.
type write struct {
	bytes []byte
	rank  uint64
}

const lengthBytes = 4

// rank hashes the content of requests without their xids, which the client numbers as its
// goroutines come. The end of a session comes after everything else. Those that begin with a
// setWatches keep their order: their replies all have the same xid, so the client tells them by
// their order.
func rank(order uint64, requests []byte) uint64 {
	const opAt, recordAt, enough = 8, 12, 256 // behind the length and the xid; behind the type
	hash := fnv.New64a()
	_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, order))
	for len(requests) >= recordAt {
		length := lengthBytes + int(binary.BigEndian.Uint32(requests))
		if length > len(requests) || length < recordAt {
			break
		}
		switch wire.Op(binary.BigEndian.Uint32(requests[opAt:])) { //nolint:exhaustive // all others are alike
		case wire.OpCloseSession:
			return math.MaxUint64
		case wire.OpSetWatches:
			return hash.Sum64()
		}
		_, _ = hash.Write(requests[opAt:min(length, enough)])
		requests = requests[length:]
	}
	return hash.Sum64()
}
