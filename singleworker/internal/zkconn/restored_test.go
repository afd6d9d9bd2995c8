package zkconn

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// restored runs a test with a connection whose server gets a snapshot of the given time back. It
// returns the session before that, the kinds of the events after it, and the log.
func restored(t *testing.T, whole bool, then func(s *server, conn *Conn)) (old int64, kinds []EventKind, log string) {
	t.Helper()
	s := serve(t)
	snapshot := s.Snapshot()
	var out bytes.Buffer
	var events []Event
	conn := s.open(t, Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}, func(ev Event) { events = append(events, ev) })
	write := func(path string) {
		if _, err := conn.Multi(t.Context(), CreateEphemeralOp(path, nil)); err != nil {
			t.Fatal(err)
		}
	}
	write("/first")
	if whole {
		snapshot = s.Snapshot()
	}
	for k := range 50 { // so many that no end of a session makes up for them
		write(fmt.Sprintf("/lost-%d", k))
	}
	time.Sleep(time.Minute)
	old, events = conn.SessionID(), nil
	if err := s.Reset(snapshot); err != nil {
		t.Fatal(err)
	}
	then(s, conn)
	for _, ev := range events {
		if ev.Kind != Disconnected { // depends on the number of attempts
			kinds = append(kinds, ev.Kind)
		}
	}
	return old, kinds, out.String()
}

// A server that was restored from a backup, or emptied, hangs up on a client that has seen more.
// The session is given up when its timeout has passed, whether the server has it or not, and once.
func TestSessionThatTheServerHasForgotten(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"restored": true, "emptied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				old, kinds, log := restored(t, whole, func(s *server, conn *Conn) {
					began := time.Now()
					err := ErrLost
					for err != nil && time.Since(began) < time.Minute {
						_, _, err = conn.Get(t.Context(), "/")
						time.Sleep(time.Millisecond)
					}
					took := time.Since(began)
					if took < granted || took > granted+5*time.Second {
						t.Errorf("answers after %v, want after %v and soon", took, granted)
					}
					if _, found, err := conn.Exists(t.Context(), "/first"); err != nil || found {
						t.Errorf("the node of the session that was given up: %t, %v", found, err)
					}
					time.Sleep(time.Minute)
					if id := conn.SessionID(); id != s.session() || len(s.Sessions()) != 2 {
						t.Errorf("session %#x, want %#x; sessions %+v", id, s.session(), s.Sessions())
					}
				})
				if !slices.Equal(kinds, []EventKind{Expired, Connected}) {
					t.Errorf("events %v; the session was %#x", kinds, old)
				}
				if n := strings.Count(log, "restored from a backup"); n != 1 || !strings.Contains(log, "seen_zxid=0x") {
					t.Errorf("%d lines say that the server knows less:\n%s", n, log)
				}
			})
		})
	}
}

// A server that is behind, or not in service, may be so for a while: the session lives on.
func TestSessionSurvivesHangUps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		conn := s.open(t, Config{}, nil)
		if _, err := conn.Multi(t.Context(), CreateEphemeralOp("/node", nil)); err != nil {
			t.Fatal(err)
		}
		old := conn.SessionID()
		stop := s.ControlKeep(zkdev.OpConnect, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
		s.Disconnect(old)
		time.Sleep(granted - time.Second)
		stop()
		time.Sleep(2 * time.Second)
		if _, found, err := conn.Exists(t.Context(), "/node"); err != nil || !found || conn.SessionID() != old {
			t.Errorf("session %#x, want %#x; its node: %t, %v", conn.SessionID(), old, found, err)
		}
	})
}
