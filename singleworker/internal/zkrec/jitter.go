package zkrec

import (
	"crypto/sha256"
	"encoding/binary"
	"path"
	"strconv"
	"time"
)

// Group is the name of the group, without the path above it.
func (t Tree) Group() string { return path.Base(t.root) }

// Jitter is by how much a tick of a slot is delayed, from 0 to below the limit, in whole
// milliseconds. It is the first 8 bytes of the SHA-256 of the group, the slot and the tick in Unix
// milliseconds, with a zero byte between them, modulo the limit. All instances compute the same, so
// it is part of the format.
func Jitter(group, slot string, tick time.Time, limit time.Duration) time.Duration {
	most := uint64(limit.Milliseconds())
	if limit <= 0 || most == 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(group + "\x00" + slot + "\x00" + strconv.FormatInt(tick.UnixMilli(), 10)))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%most) * time.Millisecond
}
