package txnlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
)

// TestWritesAsZooKeeperDoes writes again a log and snapshots of a ZooKeeper 3.8.0, byte for byte,
// without the digest at the end and the client's number of a request.
func TestWritesAsZooKeeperDoes(t *testing.T) {
	t.Parallel()
	theirs := mustRead(t, written)
	r, err := txnlog.NewReader(bytes.NewReader(theirs))
	if err != nil {
		t.Fatal(err)
	}
	if head := txnlog.AppendHead(nil); !bytes.Equal(head, theirs[:len(head)]) {
		t.Errorf("the head is %x, want %x", head, theirs[:len(head)])
	}
	const head, cxid, digest = 12, 8, 12 // bytes of a record before its body, before a field, of a field
	for at, count := r.Offset(), 0; ; at, count = r.Offset(), count+1 {
		txn, err := r.Next()
		if errors.Is(err, io.EOF) {
			if count < 15 {
				t.Errorf("%d transactions", count)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body := slices.Clone(theirs[at+head : r.Offset()-1])
		copy(body[cxid:], make([]byte, 4))
		kind := int32(binary.BigEndian.Uint32(body[28:]))
		if kind == -1 || kind == 14 && txn.Kind == txnlog.Other {
			continue // it has one code for each request of a refused transaction
		}
		if len(txn.Ops) == 1 && txn.Ops[0].Vanishes {
			continue // is read only
		}
		if ours := txnlog.AppendTxn(nil, &txn); !bytes.Equal(ours[head:len(ours)-1], body[:len(body)-digest]) {
			t.Errorf("transaction %d is\n%x, want\n%x", txn.Zxid, ours[head:len(ours)-1], body[:len(body)-digest])
		}
	}

	for _, path := range []string{"testdata/version-2/snapshot.0", "testdata/version-2/snapshot.f"} {
		theirs := mustRead(t, path)
		var nodes []txnlog.Node
		s, err := txnlog.ReadSnapshot(bytes.NewReader(theirs), func(n txnlog.Node) { nodes = append(nodes, n) })
		if err != nil {
			t.Fatal(err)
		}
		var ours bytes.Buffer
		if err := txnlog.WriteSnapshot(&ours, s, slices.Values(nodes)); err != nil {
			t.Fatal(err)
		}
		if ours.Len() < len(theirs)-100 || !bytes.HasPrefix(theirs, ours.Bytes()) {
			t.Errorf("%s is\n%x, want\n%x", path, ours.Bytes(), theirs)
		}
	}
}

// TestWhatIsWrittenIsRead: each kind of transaction.
func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	open := []txnlog.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}, {Perms: 1, Scheme: "digest", ID: "u:x="}}
	for _, want := range []txnlog.Txn{
		{Zxid: 3, Kind: txnlog.Other, Code: -101},
		{Zxid: 4, Kind: txnlog.Other, Access: &txnlog.Access{Path: "/a", ACL: open, Version: 2}},
		{Zxid: 5, Kind: txnlog.Write, Ops: []txnlog.Op{{Type: txnlog.Create, Path: "/a", ACL: open, Owner: 7, Born: 9}}},
		{Zxid: 6, Kind: txnlog.Write, Ops: []txnlog.Op{{Type: txnlog.Create, Path: "/a", Data: []byte{}, ACL: open, Born: -1}, check("/b", 3)}},
		{Zxid: 7, Kind: txnlog.Close},
	} {
		want.Session = 7
		got, err := read(log(txnlog.AppendTxn(nil, &want)))
		if err != nil || len(got) != 1 {
			t.Fatalf("%+v: %+v, %v", want, got, err)
		}
		again := txnlog.AppendTxn(nil, &got[0])
		if !bytes.Equal(again, txnlog.AppendTxn(nil, &want)) || len(got[0].Ops) != len(want.Ops) || (got[0].Access == nil) != (want.Access == nil) || got[0].Code != want.Code {
			t.Errorf("%+v, want %+v", got[0], want)
		}
	}
}
