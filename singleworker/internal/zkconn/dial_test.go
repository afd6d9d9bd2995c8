package zkconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tryNext calls Next n times; a "!" marks the servers before which the library pauses and fails
// queued requests.
func tryNext(h *hosts, n int) []string {
	var got []string
	for range n {
		server, retryStart := h.Next()
		if retryStart {
			server = "!" + server
		}
		got = append(got, server)
	}
	return got
}

func newHosts(t *testing.T, servers ...string) *hosts {
	t.Helper()
	h := &hosts{}
	if err := h.Init(servers); err != nil || h.Len() != len(servers) {
		t.Fatalf("Init(%q) = %v with %d servers", servers, err, h.Len())
	}
	return h
}

func TestHostsPauseAfterEachRound(t *testing.T) {
	t.Parallel()
	h := newHosts(t, "a", "b", "c")
	if got, want := tryNext(h, 7), []string{"a", "b", "c", "!a", "b", "c", "!a"}; !slices.Equal(got, want) {
		t.Errorf("tries %v, want %v", got, want)
	}
	alone := newHosts(t, "a")
	if got, want := tryNext(alone, 3), []string{"a", "!a", "!a"}; !slices.Equal(got, want) {
		t.Errorf("with one server tries %v, want %v", got, want)
	}
}

func TestHostsContinueWithNextServerAfterLongConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, "a", "b", "c")
		tryNext(h, 2)
		h.Connected() // to b
		time.Sleep(time.Minute)
		// Without a pause: the session must not wait while there are servers left to try.
		if got, want := tryNext(h, 4), []string{"c", "a", "b", "!c"}; !slices.Equal(got, want) {
			t.Errorf("tries %v, want %v", got, want)
		}
	})
}

// A server that accepts and hangs up must not cause a busy loop.
func TestHostsPauseAfterShortConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, "a", "b", "c")
		for i, want := range []string{"a", "!b", "!c", "!a"} {
			if got := tryNext(h, 1); got[0] != want {
				t.Errorf("try %d is %v, want %v", i, got, want)
			}
			h.Connected()
			time.Sleep(minUptime - 1)
		}
		time.Sleep(time.Nanosecond)
		if got := tryNext(h, 1); got[0] != "b" {
			t.Errorf("after a whole %v the try is %v, want b at once", minUptime, got)
		}
	})
}

func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	three := []string{"a", "b", "c"}
	for _, row := range []struct {
		servers       []string
		session, away time.Duration
		want          time.Duration
	}{
		{three, 10 * time.Second, 0, 2500 * time.Millisecond},
		{three, 10 * time.Second, 10 * time.Second, 2500 * time.Millisecond},
		{three, 10 * time.Second, 30 * time.Second, 7500 * time.Millisecond}, // the session has expired anyway
		{three, 10 * time.Second, time.Hour, 10 * time.Second},
		{three[:1], 9 * time.Second, 0, 3 * time.Second}, // no other server, but another attempt
		{three[:1], 9 * time.Second, 12 * time.Second, 4 * time.Second},
		{append(three, "d", "e"), 5 * time.Second, 0, time.Second}, // enough for a retransmission
		{three, 1500 * time.Millisecond, 0, 500 * time.Millisecond},
		{three, 1500 * time.Millisecond, 6 * time.Second, 1500 * time.Millisecond},
		{three, 10 * time.Minute, 0, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHosts(t, row.servers...)
			tryNext(h, 1)
			h.Connected()
			time.Sleep(time.Hour)
			tryNext(h, 1)
			time.Sleep(row.away)
			tryNext(h, 1)
			if got := h.attemptTimeout(row.session); got != row.want {
				t.Errorf("%d servers, session %v, not connected for %v: %v for an attempt, want %v",
					len(row.servers), row.session, row.away, got, row.want)
			}
		})
	}
}

// response is a connect response that grants a session timeout.
func response(granted time.Duration) []byte {
	frame := binary.BigEndian.AppendUint32(nil, 36)
	frame = binary.BigEndian.AppendUint32(frame, 0) // protocol version
	frame = binary.BigEndian.AppendUint32(frame, uint32(granted.Milliseconds()))
	frame = append(frame, make([]byte, 8)...) // the session ID
	frame = binary.BigEndian.AppendUint32(frame, passwordBytes)
	return append(frame, make([]byte, passwordBytes)...)
}

// shake returns a handshake with a deadline in 10 s, and its peer.
func shake(t *testing.T) (*handshake, net.Conn) {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() {
		_, _ = client.Close(), server.Close()
	})
	granted := new(atomic.Int64)
	granted.Store(int64(4 * time.Second)) // the requested timeout
	return &handshake{
		Conn: client, deadline: time.Now().Add(10 * time.Second),
		granted: granted, trouble: new(atomic.Pointer[error]),
		requests: requests{session: new(session), known: new(known)},
	}, server
}

// The connection knows the last transaction that the session has seen, and the library does not. A
// setWatches has the one seen before the connection, even if another reply has come first.
func TestConnectionTellsWhatWasSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, server := shake(t)
		const before, now = 7, 9
		conn.requests.seen = before
		conn.requests.session.zxid.Store(before)
		// frame is one with a transaction, before which there are these numbers.
		frame := func(zxid int64, after int, numbers ...int32) []byte {
			body := make([]byte, 0, 64)
			for _, n := range numbers {
				body = appendInt32(body, n)
			}
			body = append(binary.BigEndian.AppendUint64(body, uint64(zxid)), make([]byte, after)...)
			return append(appendInt32(nil, int32(len(body))), body...)
		}
		// sends has the library write a frame, and returns the frame that the server gets.
		sends := func(written []byte) []byte {
			go func() { _, _ = conn.Write(written) }()
			got := make([]byte, len(written))
			if _, err := io.ReadFull(server, got); err != nil {
				t.Fatal(err)
			}
			return got
		}
		// reads has the server send a frame, and returns the frame that the library gets.
		reads := func(sent []byte) []byte {
			go func() { _, _ = server.Write(sent) }()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(conn, got); err != nil {
				t.Fatal(err)
			}
			return got
		}
		check := func(what string, got, want []byte) {
			t.Helper()
			if !bytes.Equal(got, want) {
				t.Errorf("%s is %x, want %x", what, got, want)
			}
		}
		check("the connect request", sends(frame(0, 32, 0)), frame(before, 32, 0))
		reads(response(4 * time.Second))
		sends(append(frame(0, 0, 1, opExists), 0))
		check("a reply", reads(frame(now, 4+statBytes, 1)), frame(0, 4+statBytes, 1))
		check("the setWatches", sends(frame(0, 12, 2, opSetWatches)), frame(before, 12, 2, opSetWatches))
		check("an event", reads(frame(-1, 16, xidEvent)), frame(-1, 16, xidEvent))
		if seen := conn.requests.session.zxid.Load(); seen != now {
			t.Errorf("the session has seen %d, want %d", seen, now)
		}
	})
}

func TestGrantedTimeoutIsReadFromResponse(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		granted, want time.Duration
		chunk         int
	}{
		"at once":                   {6 * time.Second, 6 * time.Second, 40},
		"byte by byte":              {6 * time.Second, 6 * time.Second, 1},
		"cut within the timeout":    {70 * time.Second, 70 * time.Second, 10},
		"an expired session grants": {0, 4 * time.Second, 40}, // nothing: the requested timeout stays
	} {
		synctest.Test(t, func(t *testing.T) {
			conn, server := shake(t)
			sent := append(response(row.granted), "\x00\x00\x00\x1c\xff\xff\xff\xff"+string(make([]byte, 24))...) // an event
			go func() {
				for chunk := range slices.Chunk(sent, row.chunk) {
					if _, err := server.Write(chunk); err != nil {
						return
					}
				}
			}()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(conn, got); err != nil || !slices.Equal(got, sent) {
				t.Errorf("%s: read %q, %v; want all that was sent, unchanged", what, got, err)
			}
			if granted := time.Duration(conn.granted.Load()); granted != row.want {
				t.Errorf("%s: granted %v, want %v", what, granted, row.want)
			}
		})
	}
}

func TestHandshakeCannotHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, server := shake(t)
		start := time.Now()
		// The library removes its deadline between the length and the rest.
		for _, deadline := range []time.Time{{}, start.Add(time.Hour)} {
			if err := conn.SetReadDeadline(deadline); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = server.Write([]byte{0, 0, 0, 36}) }() // and then nothing
			_, err := io.ReadFull(conn, make([]byte, 36))
			if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 10*time.Second {
				t.Errorf("deadline %v: %v after %v, want a timeout after 10s", deadline, err, time.Since(start))
			}
			synctest.Wait()
		}
	})
}

func TestEarlierHandshakeDeadlineApplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, _ := shake(t)
		start := time.Now()
		if err := conn.SetReadDeadline(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want a timeout after 1s", err, time.Since(start))
		}
	})
}

func TestDeadlinesPassThroughAfterHandshake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, server := shake(t)
		go func() { _, _ = server.Write(response(time.Second)) }()
		if _, err := io.ReadFull(conn, make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := conn.SetReadDeadline(start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Hour {
			t.Errorf("%v after %v, want a timeout after 1h", err, time.Since(start))
		}
	})
}

func TestFailedTLSHandshakeClosesConnection(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{ // of the server
		"":                            "TLS handshake with zk1:2181: context deadline exceeded",
		"This ZooKeeper has no TLS\n": "TLS handshake with zk1:2181: tls: first record does not look like a TLS handshake",
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer func() { _ = server.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			go func() { _, _ = io.WriteString(server, answer) }()
			_, err := secure(ctx, client, &tls.Config{MinVersion: tls.VersionTLS12}, "zk1:2181")
			if err == nil || err.Error() != want {
				t.Errorf("answer %q: %v, want %s", answer, err, want)
			}
			if _, err := client.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("answer %q: the connection is still open: %v", answer, err)
			}
		})
	}
}
