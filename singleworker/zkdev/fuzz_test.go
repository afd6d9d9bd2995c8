package zkdev_test

import (
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// FuzzConnection sends arbitrary bytes to a server, before and after a connect request. The server
// must eventually close each connection and serve the next.
func FuzzConnection(f *testing.F) {
	f.Add(false, []byte("ruok"))
	f.Add(false, hello(0, 4000, 4711))
	f.Add(true, []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5})
	f.Add(true, []byte("\x00\x00\x00\x0f\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x02/a\x01"))
	f.Fuzz(func(t *testing.T, connected bool, sent []byte) {
		synctest.Test(t, func(t *testing.T) {
			server := zkdev.Start(t, zkdev.Config{NoListen: true})
			if connected {
				sent = append(hello(0, 4000, 0), sent...)
			}
			conn := dial(t, server, nil)
			go func() { _, _ = conn.Write(sent) }()
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("the connection ends with %v", err)
			}
			next := dial(t, server, hello(0, 4000, 0))
			reply := make([]byte, 40)
			if _, err := io.ReadFull(next, reply); err != nil || binary.BigEndian.Uint64(reply[12:]) == 0 {
				t.Errorf("the next connection gets %x, %v", reply, err)
			}
		})
	})
}

// TestDelayedSessionLives: pings held behind a slow request keep the session alive, as in
// ZooKeeper.
func TestDelayedSessionLives(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn, _ := connect(t, server)
		id := conn.SessionID()
		server.Control(zkdev.OpCreate, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(session + session/4) })
		go func() {
			// The client drops its connection before that and reconnects.
			_, _ = conn.Create("/slow", nil, 0, nil)
		}()
		time.Sleep(2 * session)
		if !exists(t, conn, "/zookeeper") || conn.SessionID() != id {
			t.Error("the session has ended")
		}
	})
}
