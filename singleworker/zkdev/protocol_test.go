package zkdev_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// dial connects and sends bytes.
func dial(tb testing.TB, server *zkdev.Server, sent []byte) net.Conn {
	tb.Helper()
	conn, err := server.Dial(tb.Context(), "", "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write(sent); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// hello is the frame of a connect request.
func hello(lastZxid int64, timeout int32, session int64) []byte {
	b := binary.BigEndian.AppendUint32(nil, 44)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(lastZxid))
	b = binary.BigEndian.AppendUint32(b, uint32(timeout))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, 16)
	return append(b, make([]byte, 16)...)
}

// wantClosed checks that the server closes the connection without a reply.
func wantClosed(tb testing.TB, conn net.Conn) {
	tb.Helper()
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		tb.Errorf("read %d bytes, %v; want the end", n, err)
	}
}

func TestTimeoutIsClamped(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		for asked, want := range map[int32]uint32{0: 1000, 999: 1000, 4321: 4321, 10_001: 10_000, -1: 1000} {
			conn := dial(t, server, hello(0, asked, 0))
			reply := make([]byte, 40)
			if _, err := io.ReadFull(conn, reply); err != nil {
				t.Fatal(err)
			}
			if granted := binary.BigEndian.Uint32(reply[8:]); granted != want {
				t.Errorf("asked for %d ms, granted %d, want %d", asked, granted, want)
			}
		}
	})
}

func TestBadConnectsAreClosed(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		for name, sent := range map[string][]byte{
			"a zxid that is ahead":         hello(1<<40, 4000, 0),
			"a frame of 2 GB":              {0x7f, 0xff, 0xff, 0xff},
			"a frame of a byte too many":   {0x00, 0x10, 0x00, 0x00},
			"a frame of a negative length": {0xff, 0xff, 0xff, 0xff},
			"a frame too short":            {0, 0, 0, 1, 0},
			"an empty frame":               {0, 0, 0, 0},
		} {
			t.Log(name)
			wantClosed(t, dial(t, server, sent))
		}
		if n := len(server.Sessions()); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestReconnectWithShorterTimeout: the latest granted timeout applies.
func TestReconnectWithShorterTimeout(t *testing.T) {
	bubble(t, func(t *virtual) {
		reply := make([]byte, 40)
		if _, err := io.ReadFull(dial(t, t.server, hello(0, 10_000, 0)), reply); err != nil {
			t.Fatal(err)
		}
		again := hello(0, 1000, int64(binary.BigEndian.Uint64(reply[12:])))
		copy(again[len(again)-16:], reply[24:])
		begin := time.Now()
		conn := dial(t, t.server, again)
		if _, err := io.ReadFull(conn, reply); err != nil {
			t.Fatal(err)
		}
		wantClosed(t, conn)
		if took := time.Since(begin); took != 1500*time.Millisecond {
			t.Errorf("the session ended after %v", took)
		}
	})
}

// TestWrongPassword: the session does not open, and lives on for its client, whose connection ends.
func TestWrongPassword(t *testing.T) {
	bubble(t, func(t *virtual) {
		reply := make([]byte, 40)
		if _, err := io.ReadFull(dial(t, t.server, hello(0, 4000, 0)), reply); err != nil {
			t.Fatal(err)
		}
		session := int64(binary.BigEndian.Uint64(reply[12:]))
		conn := dial(t, t.server, hello(0, 4000, session)) // with zeros
		if _, err := io.ReadFull(conn, reply); err != nil {
			t.Fatal(err)
		}
		if id := binary.BigEndian.Uint64(reply[12:]); id != 0 {
			t.Errorf("session %#x, want none", id)
		}
		wantClosed(t, conn)
		if n := len(t.server.Sessions()); n != 1 {
			t.Errorf("%d sessions, want the one that was there", n)
		}
	})
}

func TestUnknownSession(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn := dial(t, server, hello(0, 4000, 4711))
		reply := make([]byte, 40)
		if _, err := io.ReadFull(conn, reply); err != nil {
			t.Fatal(err)
		}
		if id := binary.BigEndian.Uint64(reply[12:]); id != 0 {
			t.Errorf("session %#x, want none", id)
		}
		wantClosed(t, conn)
	})
}

func TestSilentConnectionIsClosed(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		begin := time.Now()
		wantClosed(t, dial(t, server, []byte{0, 0}))
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}

func TestPipe(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		conn := dial(t, server, hello(0, 4000, 0))
		if _, err := io.ReadFull(conn, make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_ = conn.SetReadDeadline(begin.Add(time.Second))
		_, err := conn.Read(make([]byte, 1))
		if timeout := (net.Error)(nil); !errors.As(err, &timeout) || !timeout.Timeout() ||
			!errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(begin))
		}
		// A deadline that is moved while a call is waiting.
		_ = conn.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
		go func() {
			ping := []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}
			for range 59 {
				time.Sleep(time.Second)
				_, _ = conn.Write(ping)
			}
		}()
		for err = nil; err == nil; {
			_, err = conn.Read(make([]byte, 1000))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute+time.Second {
			t.Errorf("read: %v after %v", err, time.Since(begin))
		}
		_ = conn.Close()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
		if _, err := conn.Write([]byte{1}); err == nil {
			t.Error("write after close succeeds")
		}
	})
}

// TestFlood: the messages held back during a partition are bounded.
func TestFlood(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sent []byte // repeatedly
		most int    // how many bytes of it
	}{
		"frames of no bytes": {make([]byte, 1<<10), 2 << 20},
		"long frames":        {append([]byte{0x00, 0x0f, 0xff, 0xff}, make([]byte, 0xfffff)...), 70 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *virtual) {
				server := t.server
				conn := dial(t, server, hello(0, 10_000, 0))
				id := make([]byte, 40)
				if _, err := io.ReadFull(conn, id); err != nil {
					t.Fatal(err)
				}
				server.Partition(int64(binary.BigEndian.Uint64(id[12:])))
				written := 0
				for {
					n, err := conn.Write(test.sent)
					if written += n; err != nil {
						break
					}
					if written > test.most {
						t.Fatalf("%d bytes fit in", written)
					}
				}
			})
		})
	}
}

// TestFloodOfReplies: so are the replies held back.
func TestFloodOfReplies(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		other, _ := connect(t, server)
		if _, err := other.Create("/big", make([]byte, 1_000_000), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		server.ControlKeep(zkdev.OpGetData, func(*zkdev.Request) zkdev.Action { return zkdev.DelayReply(time.Hour) })
		conn := dial(t, server, hello(0, 10_000, 0))
		if _, err := io.ReadFull(conn, make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		for range 70 {
			if _, err := conn.Write([]byte("\x00\x00\x00\x11\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x04/big\x00")); err != nil {
				return
			}
			synctest.Wait()
		}
		t.Error("70 replies of a million bytes wait")
	})
}

// TestPipelinedReads: a client that asks for more than may wait unread gets all of it, once it
// reads.
func TestPipelinedReads(t *testing.T) {
	bubble(t, func(t *virtual) {
		other, _ := connect(t, t.server)
		const size, asked = 1_000_000, 50
		if _, err := other.Create("/big", make([]byte, size), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		conn := dial(t, t.server, hello(0, 10_000, 0))
		for range asked {
			if _, err := conn.Write([]byte("\x00\x00\x00\x11\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x04/big\x00")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n, err := io.CopyN(io.Discard, conn, asked*size); err != nil {
			t.Errorf("%d bytes read: %v", n, err)
		}
	})
}

func TestNoListen(t *testing.T) {
	bubble(t, func(t *virtual) {
		server := t.server
		if addr := server.Addr(); addr != "" {
			t.Errorf("address %q", addr)
		}
	})
}
