package zkconn

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// inReadOnly runs a test with a server that has lost its quorum and has the node /a.
func inReadOnly(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "one", 0)
		if err := s.SetReadOnly(true); err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

// Whoever asks for it can read, also in bulk and with watches, and hears of each change that it was
// not made. When the quorum is back, all is as it should be, and the earlier readings stay stale.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	inReadOnly(t, func(t *testing.T, s *server) { //nolint:thelper // the test itself
		conn := s.open(t, Config{ReadOnly: true, Auth: "app:secret"}, nil)
		wantResults(t, conn.ReadMany(t.Context(), []Read{data("/a"), children("/a"), data("/b"), {Path: "/a", Watch: true}}), "one v0; []; zookeeper get /b: no such node; one v0")
		if data, _, err := conn.GetW(t.Context(), "/a"); string(data) != "one" || err != nil || !conn.Stale() {
			t.Errorf("%q, %v, stale: %t", data, err, conn.Stale())
		}
		change := func() error {
			_, err := conn.Multi(t.Context(), SetOp("/a", nil, AnyVersion))
			return err
		}
		_, createErr := conn.CreateEphemeralSequential(t.Context(), "/a/b", nil)
		for name, err := range map[string]error{
			"multi": change(), "create": createErr, "sync": conn.Sync(t.Context(), "/a"),
			"retry": conn.Retry(t.Context(), change),
		} {
			if !errors.Is(err, ErrReadOnly) || !errors.Is(err, ErrUnavailable) || IsUnknown(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := s.SetReadOnly(false); err != nil {
			t.Fatal(err)
		}
		if err := conn.Retry(t.Context(), change); err != nil || !conn.Stale() {
			t.Errorf("with a quorum: %v, stale: %t", err, conn.Stale())
		}
	})
}

// Without asking for it, nobody is let in. With a quorum it makes no difference.
func TestReadOnlyIsAskedFor(t *testing.T) {
	t.Parallel()
	inReadOnly(t, func(t *testing.T, s *server) { //nolint:thelper // the test itself
		conn := s.open(t, Config{}, nil)
		time.Sleep(time.Minute)
		if conn.Trouble() == nil || conn.SessionID() != 0 || conn.Stale() {
			t.Errorf("session %#x, trouble %v, stale: %t", conn.SessionID(), conn.Trouble(), conn.Stale())
		}
		if err := s.SetReadOnly(false); err != nil {
			t.Fatal(err)
		}
		asks := s.open(t, Config{ReadOnly: true}, nil)
		for _, conn := range []*Conn{conn, asks} {
			err := conn.Retry(t.Context(), func() error {
				_, err := conn.Multi(t.Context(), SetOp("/a", nil, AnyVersion))
				return err
			})
			if err != nil || conn.Stale() {
				t.Errorf("%v, stale: %t", err, conn.Stale())
			}
		}
	})
}
