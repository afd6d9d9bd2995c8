package tree

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A session lives until it is closed or its bucket, a multiple of the tick, has passed.
type session struct {
	id         int64
	timeout    time.Duration // as first granted
	bucket     time.Duration // since the state's epoch
	ephemerals javaSet[string]
}

// A SessionInfo describes a session.
type SessionInfo struct {
	ID         int64
	Timeout    time.Duration
	Expires    time.Time // unless its client is heard from again
	Ephemerals []string  // sorted
}

// firstSession returns the first session id of ZooKeeper as server 0.
func firstSession(now time.Time) int64 {
	return int64(uint64(now.UnixMilli()) << 24 >> 8)
}

// bucket returns when a session ends whose client was heard from now: after its timeout, rounded up
// to the next tick. If the timeout ends exactly on a tick, it is one tick more.
func (s *State) bucket(now time.Time, timeout time.Duration) time.Duration {
	ticks := int64((now.Sub(s.epoch)+timeout)/s.tick) + 1
	return time.Duration(ticks) * s.tick
}

// OpenSession starts a session.
func (s *State) OpenSession(now time.Time, timeout time.Duration) (int64, Output) {
	s.begin()
	id := s.nextSession
	s.nextSession++
	s.sessions[id] = &session{
		id: id, timeout: timeout, bucket: s.bucket(now, timeout),
		ephemerals: javaSet[string]{buckets: defaultBuckets},
	}
	return id, Output{Txns: []Txn{{
		Zxid: s.last, Time: now, Session: id, Op: wire.OpConnect, timeout: timeout, ahead: s.Ahead,
	}}}
}

// Touch restarts a session's timeout. It returns false if the session has ended.
func (s *State) Touch(now time.Time, id int64, timeout time.Duration) bool {
	session := s.sessions[id]
	if session == nil {
		return false
	}
	session.bucket = s.bucket(now, timeout)
	return true
}

// TouchAll restarts every session's timeout, like a starting server.
func (s *State) TouchAll(now time.Time) {
	for _, session := range s.sessions {
		session.bucket = s.bucket(now, session.timeout)
	}
}

// CloseSession ends a session and deletes its ephemeral nodes. As in ZooKeeper, closing an ended
// session is a transaction, too.
func (s *State) CloseSession(now time.Time, id int64, expired bool) Output {
	s.begin()
	out := Output{Txns: []Txn{{
		Zxid: s.last, Time: now, Session: id, Op: wire.OpCloseSession, Expired: expired, ahead: s.Ahead,
	}}}
	if session := s.sessions[id]; session != nil {
		delete(s.sessions, id)
		for _, path := range session.ephemerals.cloned() {
			s.remove(&out, path)
			out.Txns = append(out.Txns, Txn{
				Zxid: s.last, Time: now, Session: id, Op: wire.OpDelete, Path: path, Expired: expired,
			})
		}
	}
	out.Reply = &Reply{Zxid: s.last}
	out.Close = true
	return out
}

// Expired lists the sessions that have timed out, lowest id first.
func (s *State) Expired(now time.Time) []int64 {
	var ids []int64
	for id, session := range s.sessions {
		if session.bucket <= now.Sub(s.epoch) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// NextExpiry returns when the next session expires if no client is heard from.
func (s *State) NextExpiry() (time.Time, bool) {
	var next time.Duration
	for _, session := range s.sessions {
		if next == 0 || session.bucket < next {
			next = session.bucket
		}
	}
	return s.epoch.Add(next), len(s.sessions) > 0
}

// Sessions lists the live sessions, lowest id first.
func (s *State) Sessions() []SessionInfo {
	list := make([]SessionInfo, 0, len(s.sessions))
	for _, session := range s.sessions {
		info := SessionInfo{ID: session.id, Timeout: session.timeout, Expires: s.epoch.Add(session.bucket)}
		info.Ephemerals = slices.Sorted(slices.Values(session.ephemerals.list()))
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// CountSessions returns how many sessions are alive.
func (s *State) CountSessions() int { return len(s.sessions) }

// HasSession reports whether a session is alive.
func (s *State) HasSession(id int64) bool { return s.sessions[id] != nil }

// Password returns a session's password: the first bytes of java.util.Random, seeded with the
// session id and a constant from ZooKeeper's source. Sessions of a development server need no
// protection, and tests that rely on ZooKeeper's rule work here, too.
func Password(id int64) [wire.PasswordLen]byte {
	const (
		superSecret = 0xB3415C00 // ZooKeeper's

		multiplier = 0x5DEECE66D // java.util.Random's
		increment  = 0xB
		mask       = 1<<48 - 1
	)
	var password [wire.PasswordLen]byte
	state := (uint64(id) ^ superSecret ^ multiplier) & mask
	for i := 0; i < wire.PasswordLen; i += 4 {
		state = (state*multiplier + increment) & mask
		binary.LittleEndian.PutUint32(password[i:], uint32(state>>16))
	}
	return password
}
