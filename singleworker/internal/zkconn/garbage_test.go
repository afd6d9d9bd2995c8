package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// liar is a peer that completes the handshake and answers the first request with an invalid frame
// length, which zkdev cannot do. left is closed when the client hangs up.
func liar(length uint32, left chan<- struct{}) net.Conn {
	client, conn := net.Pipe()
	go func() {
		defer close(left)
		defer func() { _ = conn.Close() }()
		if skipFrame(conn) != nil {
			return
		}
		hello := response(granted)
		hello[len(hello)-1-sessionEnd] = 1 // the session id; 0 would mean that it has expired
		_, _ = conn.Write(hello)
		if skipFrame(conn) != nil {
			return
		}
		_, _ = conn.Write(binary.BigEndian.AppendUint32(nil, length))
		_, _ = io.Copy(io.Discard, conn)
	}()
	return client
}

const sessionEnd = 4 + passwordBytes // what follows the session ID in the response

func skipFrame(r io.Reader) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

// A reply that violates the protocol leaves the outcome unknown, and the next server is tried.
func TestGarbageIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	for what, length := range map[string]uint32{
		"a frame too long":     maxFrame + 1,
		"a frame of length -1": 1<<32 - 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			s.have(t, "/a", "data", 0)
			left := make(chan struct{})
			lying := true
			conn := s.open(t, Config{Servers: "zk1,zk2", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if !lying {
					return s.dial(ctx, network, address)
				}
				lying = false
				return liar(length, left), nil
			}}, nil)
			synctest.Wait()
			start := time.Now()
			if _, _, err := conn.Get(t.Context(), "/a"); !errors.Is(err, ErrLost) {
				t.Errorf("%s: Get = %v, want ErrLost", what, err)
			}
			<-left
			if took := time.Since(start); took != 0 {
				t.Errorf("%s: the client hung up after %v, want at once", what, took)
			}
			time.Sleep(time.Minute)
			if data, _, err := conn.Get(t.Context(), "/a"); string(data) != "data" || err != nil {
				t.Errorf("%s: Get from the other server = %q, %v", what, data, err)
			}
		})
	}
}

// A peer that is not ZooKeeper is recognized by its first four bytes, which the library would take
// for the length of the connect response, and allocate as much memory.
func TestGreetingOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		conn := s.open(t, Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			client, web := net.Pipe()
			go func() {
				defer func() { _ = web.Close() }()
				_ = skipFrame(web)
				sent, _ := io.WriteString(web, "HTTP/1.1 400 Bad Request\r\n\r\n")
				if sent != 4 {
					t.Errorf("%d bytes were read, want four", sent)
				}
			}()
			return client, nil
		}}, nil)
		synctest.Wait()
		if err := conn.Trouble(); !errors.Is(err, errNoGreeting) || conn.SessionTimeout() != asked {
			t.Errorf("trouble %v, session timeout %v; want %v, and the %v asked for", err, conn.SessionTimeout(), errNoGreeting, asked)
		}
	})
}
