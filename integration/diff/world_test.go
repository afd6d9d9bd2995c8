package diff

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	slots = 6 // sessions that are used at once

	longSession  = 10_000 // ms; the longest that is granted
	shortSession = 1000   // the shortest
)

// A side is one of the two servers, with a connection per slot.
type side struct {
	name  string
	addr  string
	view  *view
	peers [slots]*peer
}

// A world is the two servers to compare.
type world struct {
	t    *testing.T
	g    *generator
	seed uint64

	dev, real *side
	zxid      int64 // of the last reply, from the start of the test
	xid       int32
	step      int
	history   []deed
}

// A deed is one line of the history.
type deed struct {
	text  string
	paths []string
}

func (w *world) sides() []*side { return []*side{w.real, w.dev} }

func (w *world) note(slot int, text string, paths ...string) {
	w.history = append(w.history, deed{fmt.Sprintf("%6d session %d: %s", w.step, slot, text), paths})
}

// failf prints the facts needed to understand a difference.
func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	const lately, shown = 12, 80
	var paths []string
	if len(w.history) > 0 {
		paths = w.history[len(w.history)-1].paths
	}
	w.saveHistory()
	var lines []string
	for i, deed := range w.history {
		if i >= len(w.history)-lately || related(deed.paths, paths) {
			lines = append(lines, deed.text)
		}
	}
	lines = lines[max(0, len(lines)-shown):]
	w.t.Fatalf("%s\nseed %d, step %d; what led here:\n%s", fmt.Sprintf(format, args...), w.seed, w.step, strings.Join(lines, "\n"))
}

// saveHistory writes the whole history to the file that -diff.history names.
func (w *world) saveHistory() {
	if *historyFile == "" {
		return
	}
	var b strings.Builder
	for _, deed := range w.history {
		b.WriteString(deed.text + "\n")
	}
	if err := os.WriteFile(*historyFile, []byte(b.String()), 0o600); err != nil {
		w.t.Log(err)
	}
}

// related reports whether one of the paths is another, or its parent.
func related(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool {
			return x == y || len(x) > 1 && strings.HasPrefix(y, x+"/") || len(y) > 1 && strings.HasPrefix(x, y+"/")
		})
	})
}

// connect opens a slot's connection on both sides, for a new session or the slot's previous one.
func (w *world) connect(slot int, resume bool, timeout int32, readOnlyFlag bool) {
	var hellos [][]byte
	for _, s := range w.sides() {
		session, password := int64(0), make([]byte, 16)
		if old := s.peers[slot]; old != nil {
			if resume {
				session, password = old.session, old.password
			}
			// When a session moves, the server closes its old connection.
			if !resume || w.step%2 == 0 {
				_ = old.conn.Close()
			} else {
				defer old.conn.Close()
			}
		}
		p, hello, err := dial(s.addr, 0, session, password, timeout, readOnlyFlag)
		if err != nil {
			w.failf("connect to %s: %v", s.name, err)
		}
		if session == 0 {
			s.view.addSession(p.session)
		}
		s.peers[slot] = p
		hello = slices.Clone(hello)
		binary.BigEndian.PutUint64(hello[8:], uint64(s.view.sessions[p.session]))
		if p.session != 0 {
			copy(hello[20:36], make([]byte, 16)) // the password follows from the session
		}
		hellos = append(hellos, hello)
	}
	if !bytes.Equal(hellos[0], hellos[1]) {
		w.failf("connect: real %x\n         dev %x", hellos[0], hellos[1])
	}
	if w.real.peers[slot].session == 0 {
		w.hangUp(slot)
	}
}

// hangUp lets both servers forget a slot's connection.
func (w *world) hangUp(slot int) {
	for _, s := range w.sides() {
		if s.peers[slot] != nil {
			_ = s.peers[slot].conn.Close()
			s.peers[slot] = nil
		}
	}
}

// do sends operations of one session at once and compares everything up to the last reply. It
// returns the real server's replies and whether it closed the connection after them.
func (w *world) do(slot int, ops ...op) (answers []frame, closed bool) {
	w.t.Helper()
	codes := map[int32]int32{}
	xids := make([]int32, len(ops))
	silent := false
	for i, o := range ops {
		w.note(slot, o.name, o.paths...)
		w.xid++
		xids[i] = w.xid
		if o.code == opPing {
			xids[i] = xidPing
		}
		codes[xids[i]] = o.code
		silent = silent || o.silent
	}
	last := xids[len(ops)-1]
	var got [2][]frame
	var ended [2]bool
	for i, s := range w.sides() {
		frames, end := w.ask(s, slot, ops, xids, silent, last)
		for _, f := range frames {
			normal, err := s.view.frame(f, codes[f.xid])
			if err != nil {
				w.failf("%s: %v", s.name, err)
			}
			got[i] = append(got[i], normal)
		}
		if s.view.wrong != "" {
			w.failf("%s: %s", s.name, s.view.wrong)
		}
		ended[i] = end
	}
	w.compare(got, ended)
	for _, f := range got[0] {
		if f.xid != xidEvent {
			w.zxid = max(w.zxid, f.zxid)
			answers = append(answers, f)
		}
	}
	return answers, ended[0]
}

// ask sends operations to one side and reads the replies.
func (w *world) ask(s *side, slot int, ops []op, xids []int32, silent bool, last int32) ([]frame, bool) {
	messages := make([]buf, 0, len(ops)+1)
	for i, o := range ops {
		var b buf
		b.i32(xids[i]).i32(o.code)
		b = append(b, o.record...)
		if (o.code == opSetWatches || o.code == opSetWatches2) && o.zxidAt >= 0 && len(o.record) >= 8 {
			back := int64(binary.BigEndian.Uint64(o.record))
			binary.BigEndian.PutUint64(b[8:], uint64(s.view.zxid0+w.zxid-back))
		}
		messages = append(messages, b)
	}
	if silent && last != xidPing { // the ping's reply comes last
		var b buf
		messages, last = append(messages, *b.i32(xidPing).i32(opPing)), xidPing
	}
	p := s.peers[slot]
	if err := p.send(messages...); err != nil {
		w.failf("%s: send: %v", s.name, err)
	}
	frames, err := p.replies(last)
	closes := ops[len(ops)-1].code
	if err == nil && (closes == opCloseSession || closes == opUnknown || closes == opAuth && frames[len(frames)-1].code != 0) {
		_, err = p.replies(last)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		w.failf("%s: %v; after %v", s.name, err, frames)
	}
	return frames, err != nil
}

// compare fails unless both sides have sent the same frames in the same order.
func (w *world) compare(got [2][]frame, ended [2]bool) {
	w.t.Helper()
	for i := range max(len(got[0]), len(got[1])) {
		switch {
		case i >= len(got[0]):
			w.failf("dev sends more: %v", got[1][i])
		case i >= len(got[1]):
			w.failf("dev does not send: %v", got[0][i])
		}
		a, b := got[0][i], got[1][i]
		if a.xid != b.xid || a.zxid != b.zxid || a.code != b.code || !bytes.Equal(a.body, b.body) {
			w.failf("real %v\ndev  %v\nall of real: %v\nall of dev:  %v", a, b, got[0], got[1])
		}
	}
	if ended[0] != ended[1] {
		w.failf("connection closed: real %v, dev %v", ended[0], ended[1])
	}
}

// pingAll compares the events that have arrived on every connection.
func (w *world) pingAll() {
	w.t.Helper()
	for slot := range slots {
		if w.real.peers[slot] != nil {
			w.do(slot, op{code: opPing, name: "ping"})
		}
	}
}

// learn updates the generator with the result of an operation.
func (w *world) learn(o op, answers []frame) {
	if len(answers) == 0 {
		return
	}
	f := answers[0]
	r := &reader{rest: f.body}
	switch {
	case f.code == -101 && len(o.paths) == 1:
		w.g.deleted(o.paths[0])
	case f.code != 0:
	case o.code == opCreate, o.code == opCreate2:
		w.g.created(string(r.field()))
	case o.code == opDelete:
		w.g.deleted(o.paths[0])
	case o.code == opSetData:
		w.g.versions[o.paths[0]] = int32(binary.BigEndian.Uint32(f.body[32:]))
	case o.code == opMulti && int32(binary.BigEndian.Uint32(f.body)) != opErrorInAMulti:
		for _, part := range o.parts {
			w.learn(part, []frame{{body: w.partBody(part)}})
		}
	}
}

// partBody returns a reply that shows a multi's effect on a path.
func (w *world) partBody(part op) []byte {
	var b buf
	if part.code == opSetData {
		b = append(make(buf, 32), *new(buf).i32(w.g.versions[part.paths[0]] + 1)...)
	} else {
		b.str(part.paths[0])
	}
	return b
}

// sessionsLeft returns a server's number of sessions.
func (w *world) sessionsLeft(s *side) int {
	answer, err := word(s.addr, "mntr")
	if err != nil {
		w.failf("%s: mntr: %v", s.name, err)
	}
	_, rest, _ := strings.Cut(answer, "zk_global_sessions\t")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		w.failf("%s: mntr has no number of sessions: %q", s.name, answer)
	}
	return n
}

// awaitExpiry waits until both servers have one session less than before.
func (w *world) awaitExpiry(before [2]int) {
	for i, s := range w.sides() {
		deadline := time.Now().Add(replyTimeout)
		for w.sessionsLeft(s) >= before[i] {
			if time.Now().After(deadline) {
				w.failf("%s: a session does not expire", s.name)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
