package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// TestRequests decodes requests that ZooKeeper's own client sends, field by field.
func TestRequests(t *testing.T) {
	t.Parallel()
	acl := []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
	const (
		world = "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65"
		a     = "00000002 2f61"
	)
	for _, test := range []struct {
		name string
		op   wire.Op
		hex  string
		want wire.Request
	}{
		{"create", wire.OpCreate, a + "00000001 78" + world + "00000003", wire.Request{Path: "/a", Data: []byte("x"), ACL: acl, Flags: 3}},
		{"create null", wire.OpCreate, a + "ffffffff ffffffff 00000000", wire.Request{Path: "/a"}},
		{"delete", wire.OpDelete, a + "ffffffff", wire.Request{Path: "/a", Version: -1}},
		{"setData empty", wire.OpSetData, a + "00000000 00000007", wire.Request{Path: "/a", Data: []byte{}, Version: 7}},
		{"exists", wire.OpExists, a + "01", wire.Request{Path: "/a", Watch: true}},
		{"sync of null", wire.OpSync, "ffffffff", wire.Request{NoPath: true}},
		{"null path", wire.OpDelete, "ffffffff 00000000", wire.Request{Null: true}},
		{"too short", wire.OpDelete, a + "0000", wire.Request{Path: "/a", Malformed: true}},
		{"negative length", wire.OpDelete, "fffffffe", wire.Request{Malformed: true, Null: true}},
		{"length beyond the end", wire.OpDelete, "7fffffff 2f61", wire.Request{Malformed: true, Null: true}},
		{"vector beyond the end", wire.OpCreate, a + "00000000 7fffffff", wire.Request{Path: "/a", Data: []byte{}, Malformed: true}},
		{"set watches", wire.OpSetWatches, "0000000000000009 00000001" + a + "00000000 ffffffff", wire.Request{Watches: wire.SetWatches{Zxid: 9, Data: []string{"/a"}}}},
		{
			"multi", wire.OpMulti, "00000002 00 ffffffff" + a + "00000001 ffffffff 01 ffffffff",
			wire.Request{Ops: []wire.Request{{Header: wire.Header{Op: wire.OpDelete}, Path: "/a", Version: 1}}},
		},
		{ // ZooKeeper's own decoder drops the flag
			"multi of reads leaves no watches", wire.OpMultiRead, "00000004 00 ffffffff" + a + "01 00000008 00 ffffffff" + a + "01 ffffffff 01 ffffffff",
			wire.Request{Ops: []wire.Request{
				{Header: wire.Header{Op: wire.OpGetData}, Path: "/a"},
				{Header: wire.Header{Op: wire.OpGetChildren}, Path: "/a"},
			}},
		},
		{"multi without an end", wire.OpMulti, "00000002 00 ffffffff" + a + "00000001", wire.Request{
			Malformed: true, Ops: []wire.Request{{Header: wire.Header{Op: wire.OpDelete}, Path: "/a", Version: 1}},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			header := wire.Header{Xid: 5, Op: test.op}
			test.want.Header = header
			got := wire.DecodeRequest(header, unhex(t, test.hex))
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// TestFrames compares the server's frames with golden bytes.
func TestFrames(t *testing.T) {
	t.Parallel()
	stat := wire.Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7, EphemeralOwner: 8, DataLength: 9, NumChildren: 10, Pzxid: 11}
	const statHex = "0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005 00000006 00000007 0000000000000008 00000009 0000000a 000000000000000b"
	for name, test := range map[string]struct {
		got  []byte
		want string
	}{
		"no body":  {wire.ReplyFrame(7, 9, wire.NoNode, nil), "00000010 00000007 0000000000000009 ffffff9b"},
		"create":   {wire.ReplyFrame(1, 2, 0, wire.PathBody("/a")), "00000016 00000001 0000000000000002 00000000 00000002 2f61"},
		"getData":  {wire.ReplyFrame(1, 2, 0, wire.DataBody{Stat: stat}), "00000058 00000001 0000000000000002 00000000 ffffffff" + statHex},
		"children": {wire.ReplyFrame(1, 2, 0, wire.NamesBody{"a", "b"}), "0000001e 00000001 0000000000000002 00000000 00000002 00000001 61 00000001 62"},
		"event":    {wire.EventFrame(wire.NodeDeleted, "/a"), "0000001e ffffffff ffffffffffffffff 00000000 00000002 00000003 00000002 2f61"},
		"beyond the basic plane": {
			wire.ReplyFrame(1, 2, 0, wire.PathBody("\U0001F600")),
			"0000001a 00000001 0000000000000002 00000000 00000006 eda0bd edb880",
		},
		"multi": {
			wire.ReplyFrame(1, 2, 0, wire.MultiBody{{Op: wire.OpDelete}, {Op: wire.OpError, Code: wire.NoNode, Body: wire.IntBody(wire.NoNode)}}),
			"0000002f 00000001 0000000000000002 00000000 00000002 00 00000000 ffffffff 00 ffffff9b ffffff9b ffffffff 01 ffffffff",
		},
		"connect": {
			wire.ConnectFrame(0x10, 4000, [wire.PasswordLen]byte{1}, true, true),
			"00000025 00000000 00000fa0 0000000000000010 00000010 01000000000000000000000000000000 01",
		},
	} {
		if want := unhex(t, test.want); !bytes.Equal(test.got, want) {
			t.Errorf("%s:\ngot  %x\nwant %x", name, test.got, want)
		}
	}
}

func TestFrameLimit(t *testing.T) {
	t.Parallel()
	largest := append([]byte{0x00, 0x0f, 0xff, 0xff}, make([]byte, wire.MaxFrame)...)
	if message, err := wire.ReadFrame(bytes.NewReader(largest)); err != nil || len(message) != wire.MaxFrame {
		t.Errorf("largest frame: %d bytes, %v", len(message), err)
	}
	for _, head := range []string{"\x00\x10\x00\x00", "\x7f\xff\xff\xff", "\xff\xff\xff\xff"} {
		_, err := wire.ReadFrame(strings.NewReader(head))
		if bad := (*wire.FrameError)(nil); !errors.As(err, &bad) {
			t.Errorf("length %x: %v, want a FrameError", head, err)
		}
	}
	if _, err := wire.ReadFrame(strings.NewReader("\x00\x00\x00\x09abc")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("frame cut short: %v", err)
	}
}

func TestConnectRequest(t *testing.T) {
	t.Parallel()
	const old = "00000000 0000000000000003 00000fa0 0000000000000007 00000002 0102"
	for text, want := range map[string]wire.Connect{
		old:        {LastZxid: 3, Timeout: 4000, Session: 7, Password: []byte{1, 2}},
		old + "00": {LastZxid: 3, Timeout: 4000, Session: 7, Password: []byte{1, 2}, HasReadOnly: true},
		old + "01": {LastZxid: 3, Timeout: 4000, Session: 7, Password: []byte{1, 2}, HasReadOnly: true, TakesReadOnly: true},
	} {
		if got, err := wire.DecodeConnect(unhex(t, text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	if _, err := wire.DecodeConnect([]byte{1, 2, 3}); err == nil {
		t.Error("three bytes are taken for a connect request")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		wire.OpMulti.String(): "multi", wire.Op(77).String(): "op 77",
		wire.NoNode.String(): "no node", wire.Code(-77).String(): "code -77",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// FuzzFrame passes arbitrary bytes to every decoder. Nothing may panic or return more bytes than it
// was given.
func FuzzFrame(f *testing.F) {
	f.Add(unhex(f, "0000000e 00000001 00000002 00000002 2f61 ffffffff"))
	f.Add(unhex(f, "00000023 00000001 0000000e 00000002 00 ffffffff 00000002 2f61 00000001 ffffffff 01 ffffffff"))
	f.Add(unhex(f, "00000010 00000001 00000065 0000000000000001 7fffffff"))
	f.Add([]byte("ruok"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		for {
			message, err := wire.ReadFrame(r)
			if err != nil {
				return
			}
			_, _ = wire.DecodeConnect(message)
			header, record, err := wire.DecodeHeader(message)
			if err != nil {
				continue
			}
			_, _ = wire.DecodeAuth(record)
			if request := wire.DecodeRequest(header, record); len(request.Ops) > len(record) || size(request) > 3*len(record) {
				t.Errorf("%d bytes became %+v", len(record), request)
			}
		}
	})
}

// size returns how many bytes of text and data a request has. Each invalid UTF-8 byte becomes
// three.
func size(r wire.Request) int {
	n := len(r.Path) + len(r.Data)
	for _, acl := range r.ACL {
		n += len(acl.Scheme) + len(acl.ID.ID)
	}
	for _, list := range [][]string{r.Watches.Data, r.Watches.Exist, r.Watches.Child, r.Watches.Persistent} {
		for _, path := range list {
			n += len(path)
		}
	}
	for _, op := range r.Ops {
		n += size(op)
	}
	return n
}

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
