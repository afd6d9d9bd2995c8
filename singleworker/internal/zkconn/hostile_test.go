package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// mangler is a connection whose server's answers are changed on the way: frame n is passed through
// change, the connect response is frame 0.
type mangler struct {
	net.Conn
	change func(n int, body []byte) []byte
	n      int
	rest   []byte
}

func (m *mangler) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		var head [lengthBytes]byte
		if _, err := io.ReadFull(m.Conn, head[:]); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(m.Conn, body); err != nil {
			return 0, err
		}
		body = m.change(m.n, body)
		m.n++
		m.rest = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// calls are one of each type of request that a Conn makes.
var calls = map[string]func(ctx context.Context, c *Conn) error{
	"get":      func(ctx context.Context, c *Conn) error { _, _, err := c.Get(ctx, "/a"); return err },
	"getW":     func(ctx context.Context, c *Conn) error { _, _, err := c.GetW(ctx, "/a"); return err },
	"children": func(ctx context.Context, c *Conn) error { _, _, err := c.Children(ctx, "/"); return err },
	"many": func(ctx context.Context, c *Conn) error {
		return firstError(c.ReadMany(ctx, []Read{{Path: "/a"}, {Path: "/", Children: true}, {Path: "/b"}}))
	},
	"many watched": func(ctx context.Context, c *Conn) error { // the first reply is that to setWatches
		return firstError(c.ReadMany(ctx, []Read{{Path: "/a", Watch: true}, {Path: "/", Children: true, Watch: true}}))
	},
	"exists": func(ctx context.Context, c *Conn) error { _, _, err := c.Exists(ctx, "/a"); return err },
	"sync":   func(ctx context.Context, c *Conn) error { return c.Sync(ctx, "/a") },
	"acl":    func(ctx context.Context, c *Conn) error { return c.InheritACL(ctx, "/a") },
	"create": func(ctx context.Context, c *Conn) error {
		_, err := c.CreateEphemeralSequential(ctx, "/e", nil)
		return err
	},
	"multi": func(ctx context.Context, c *Conn) error {
		_, err := c.Multi(ctx, CheckOp("/a", 0), SetOp("/a", []byte("data"), AnyVersion), CreateOp("/b", nil), DeleteOp("/b", 0))
		return err
	},
	"refused multi": func(ctx context.Context, c *Conn) error {
		_, err := c.Multi(ctx, CheckOp("/a", 7), CreateOp("/b", nil))
		return err
	},
}

func firstError(results []ReadResult) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// manglings are possible damages to a body: cut at each byte, each four bytes replaced by a count
// that does not fit, error codes that are not known, and noise.
func manglings(size int, rng *rand.Rand) map[string]func([]byte) []byte {
	all := make(map[string]func([]byte) []byte)
	for n := range size {
		all[fmt.Sprintf("cut after %d", n)] = func(body []byte) []byte { return body[:min(n, len(body))] }
	}
	for at := 0; at+4 <= size; at++ {
		for _, count := range []uint32{1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 24} {
			all[fmt.Sprintf("%d at %d", int32(count), at)] = func(body []byte) []byte {
				body = slices.Clone(body)
				if at+4 <= len(body) {
					binary.BigEndian.PutUint32(body[at:], count)
				}
				return body
			}
		}
	}
	for _, code := range []int32{-127, -125, -122, -124, -117, -9, -7, -6, -5, -4, -3, -2, -1, 1, 1 << 30, -1 << 31} {
		all[fmt.Sprintf("error code %d", code)] = func(body []byte) []byte {
			body = slices.Clone(body)
			binary.BigEndian.PutUint32(body[headerBytes-4:], uint32(code))
			return body
		}
	}
	for k := range 20 {
		noise := make([]byte, size)
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		all[fmt.Sprintf("noise %d", k)] = func(body []byte) []byte {
			return append(slices.Clone(body[:min(headerBytes, len(body))]), noise...)
		}
	}
	return all
}

// No reply of a server ends the process: each mangled reply is answered with something, and the
// next connection works.
func TestHostileReplies(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	kinds, replies := make(map[string]bool), 0
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		call, size := calls[name], 0
		try(t, call, func(n int, body []byte) []byte {
			if n == 1 {
				size = len(body)
			}
			return body
		})
		all := manglings(size, rng)
		some := slices.Sorted(maps.Keys(all))
		for _, what := range some {
			kinds[what] = true
		}
		replies += len(some)
		rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		for _, what := range some[:simkit.Share(len(some))] {
			mangle := all[what]
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				try(t, call, func(n int, body []byte) []byte {
					if n == 1 {
						return mangle(body)
					}
					return body
				})
			})
		}
	}
	t.Logf("hostile replies: %d of %d kinds, of which this test tries %d", replies, len(kinds), simkit.Share(replies))
	if len(kinds) < 200 {
		t.Errorf("%d kinds of hostile replies, want 200", len(kinds))
	}
}

// try makes one call whose answer is changed, and another one, which must succeed in the end.
func try(t *testing.T, call func(ctx context.Context, c *Conn) error, change func(n int, body []byte) []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "data", 0)
		first := true
		conn := s.open(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := s.dial(ctx, network, address)
			if err != nil || !first {
				return raw, err
			}
			first = false
			return &mangler{Conn: raw, change: change}, nil
		}}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = call(ctx, conn) // whatever the answer is, it is one
		for range 10 {
			if _, _, err := conn.Get(ctx, "/a"); err == nil {
				return
			} else if !IsUnknown(err) {
				t.Fatalf("the next call: %v", err)
			}
			time.Sleep(time.Second)
		}
		t.Error("the connection does not come back")
	})
}

// A greeting that the library cannot handle counts as none.
func TestHostileGreetings(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func([]byte) []byte{
		"timeout 0":            func(b []byte) []byte { binary.BigEndian.PutUint32(b[4:], 0); return b },
		"negative timeout":     func(b []byte) []byte { binary.BigEndian.PutUint32(b[4:], 1<<31); return b },
		"a password of 2 GB":   func(b []byte) []byte { binary.BigEndian.PutUint32(b[16:], 1<<31-1); return b },
		"a password of -1":     func(b []byte) []byte { binary.BigEndian.PutUint32(b[16:], 1<<32-1); return b },
		"cut in the session":   func(b []byte) []byte { return b[:12] },
		"cut in the password":  func(b []byte) []byte { return b[:25] },
		"nothing":              func([]byte) []byte { return nil },
		"no password's length": func(b []byte) []byte { return b[:16] },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			try(t, calls["get"], func(n int, body []byte) []byte {
				if n == 0 {
					return change(body)
				}
				return body
			})
		})
	}
}

// An event that cannot be decoded ends the connection, not the process.
func TestHostileEvents(t *testing.T) {
	t.Parallel()
	event := make([]byte, headerBytes)
	binary.BigEndian.PutUint32(event, 1<<32-1) // xid -1
	for what, body := range map[string][]byte{
		"nothing": {}, "15 bytes": event[:15], "no body": event, "half a type": append(slices.Clone(event), 0, 0),
		"a path of 2 GB": append(slices.Clone(event), 0, 0, 0, 1, 0, 0, 0, 3, 127, 255, 255, 255),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			try(t, calls["get"], func(n int, answer []byte) []byte {
				if n == 1 {
					return body
				}
				return answer
			})
		})
	}
}

func TestMalformedIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "data", 0)
		conn := s.open(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := s.dial(ctx, network, address)
			return &mangler{Conn: raw, change: func(_ int, body []byte) []byte { return body[:min(len(body), 40)] }}, err
		}}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := conn.Multi(ctx, SetOp("/a", []byte("new"), AnyVersion))
		if !IsUnknown(err) {
			t.Errorf("Multi = %v, want that its outcome is not known", err)
		}
		if trouble := conn.Trouble(); trouble != nil && !errors.Is(trouble, errMalformed) {
			t.Errorf("trouble %v, want that a reply was malformed", trouble)
		}
	})
}

// fill creates children of a node with names of 200 bytes, so that their list is longer than is
// read.
func fill(t *testing.T, c *Conn, path string) {
	t.Helper()
	const perMulti = 1000
	for first := 0; first < maxFrame/200; first += perMulti {
		ops := make([]Op, perMulti)
		for k := range ops {
			ops[k] = CreateOp(fmt.Sprintf("%s/%0200d", path, first+k), nil)
		}
		if _, err := c.Multi(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
}

// A list of children that is too long is not read, and says so: the connection stays, and other
// requests are answered.
func TestTooManyChildren(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		s.have(t, "/a", "data", 0)
		var lost atomic.Int32
		conn := s.open(t, Config{}, func(ev Event) {
			if ev.Kind == Disconnected {
				lost.Add(1)
			}
		})
		if err := conn.EnsureRoot(t.Context(), "/big"); err != nil {
			t.Fatal(err)
		}
		fill(t, conn, "/big")
		for range 2 {
			for name, list := range map[string]func(context.Context, string) ([]string, Stat, error){
				"Children": conn.Children, "ChildrenW": conn.ChildrenW,
			} {
				if _, _, err := list(t.Context(), "/big"); !errors.Is(err, ErrTooLong) || IsUnknown(err) {
					t.Errorf("%s = %v, want ErrTooLong", name, err)
				}
			}
		}
		if data, _, err := conn.Get(t.Context(), "/a"); string(data) != "data" || err != nil {
			t.Errorf("Get = %q, %v", data, err)
		}
		a := Read{Path: "/a", Watch: true}
		for i, r := range conn.ReadMany(t.Context(), []Read{a, {Path: "/big", Children: true, Watch: true}, a, a, a}) {
			if i == 1 && (!errors.Is(r.Err, ErrTooLong) || IsUnknown(r.Err)) || i != 1 && (string(r.Data) != "data" || r.Err != nil) {
				t.Errorf("reading %d of many = %q, %v; want ErrTooLong for the second", i, r.Data, r.Err)
			}
		}
		if n := lost.Load(); n > 0 {
			t.Errorf("the connection was lost %d times", n)
		}
	})
}
