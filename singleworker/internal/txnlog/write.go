package txnlog

import (
	"bufio"
	"encoding/binary"
	"hash/adler32"
	"io"
	"iter"
	"maps"
	"slices"
)

// AppendHead appends the head of a log.
func AppendHead(b []byte) []byte {
	const database = 0 // as ZooKeeper numbers it
	return appendFileHead(b, logMagic, database)
}

func appendFileHead(b []byte, magic uint32, database int64) []byte {
	b = binary.BigEndian.AppendUint32(b, magic)
	b = appendInt(b, fileVersion)
	return appendLong(b, database)
}

// AppendTxn appends the record of a transaction.
func AppendTxn(b []byte, t *Txn) []byte {
	at := len(b)
	const head = 8 + 4 // checksum, length
	b = append(b, make([]byte, head)...)
	b = appendBody(b, t)
	body := b[at+head:]
	binary.BigEndian.PutUint64(b[at:], uint64(adler32.Checksum(body)))
	binary.BigEndian.PutUint32(b[at+8:], uint32(len(body)))
	return append(b, endOfRecord)
}

func appendBody(b []byte, t *Txn) []byte {
	b = appendLong(b, t.Session)
	b = appendInt(b, 0) // the client's number of the request, for servers that wait for another's
	b = appendLong(b, t.Zxid)
	b = appendLong(b, t.Time.UnixMilli())
	switch {
	case t.Kind == Connect:
		return appendInt(appendInt(b, typeCreateSession), int32(t.Timeout.Milliseconds()))
	case t.Kind == Close:
		b = appendInt(appendInt(b, typeCloseSession), int32(len(t.Ops)))
		for k := range t.Ops {
			b = appendBuffer(b, []byte(t.Ops[k].Path))
		}
		return b
	case t.Access != nil:
		b = appendBuffer(appendInt(b, typeSetACL), []byte(t.Access.Path))
		return appendInt(appendACL(b, t.Access.ACL), t.Access.Version)
	case t.Kind == Other:
		return appendInt(appendInt(b, typeError), t.Code)
	case len(t.Ops) == 1:
		return appendOp(appendInt(b, t.Ops[0].Type.number()), &t.Ops[0])
	}
	b = appendInt(appendInt(b, typeMulti), int32(len(t.Ops)))
	for k := range t.Ops {
		b = appendInt(b, t.Ops[k].Type.number())
		b = appendBuffer(b, appendOp(nil, &t.Ops[k]))
	}
	return b
}

// number is ZooKeeper's of the type.
func (t OpType) number() int32 {
	switch t {
	case Create:
		return typeCreate
	case Delete:
		return typeDelete
	case SetData:
		return typeSetData
	case Check:
		return typeCheck
	}
	return typeError
}

func appendOp(b []byte, op *Op) []byte {
	b = appendBuffer(b, []byte(op.Path))
	switch op.Type {
	case Create:
		b = appendACL(appendBuffer(b, op.Data), op.ACL)
		ephemeral := byte(0)
		if op.Owner != 0 {
			ephemeral = 1
		}
		b = appendInt(append(b, ephemeral), op.Born)
	case SetData:
		b = appendInt(appendBuffer(b, op.Data), op.Version)
	case Check:
		b = appendInt(b, op.Version)
	case Delete:
	}
	return b
}

// WriteSnapshot writes a snapshot of the sessions and access control lists of s, and of the nodes,
// parents first.
func WriteSnapshot(w io.Writer, s *Snapshot, nodes iter.Seq[Node]) error {
	const database = -1
	sum := adler32.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<18)
	b := appendInt(appendFileHead(nil, snapshotMagic, database), int32(len(s.Sessions)))
	for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
		b = appendInt(appendLong(b, id), int32(s.Sessions[id].Milliseconds()))
	}
	b = appendInt(b, int32(len(s.ACLs)))
	for _, key := range slices.Sorted(maps.Keys(s.ACLs)) {
		b = appendACL(appendLong(b, key), s.ACLs[key])
	}
	_, _ = out.Write(b) // Flush returns its error
	for n := range nodes {
		b = appendBuffer(appendBuffer(b[:0], []byte(n.Path)), n.Data)
		for _, v := range []int64{n.ACL, n.Czxid, n.Mzxid, n.Ctime.UnixMilli(), n.Mtime.UnixMilli()} {
			b = appendLong(b, v)
		}
		b = appendInt(appendInt(appendInt(b, n.Version), n.Born), n.Aversion)
		b = appendLong(appendLong(b, n.Owner), n.Pzxid)
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	end := appendBuffer(nil, []byte("/")) // is not the path of a node: the root's is empty
	_, _ = out.Write(end)
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(append(appendLong(nil, int64(sum.Sum32())), end...))
	return err
}

func appendInt(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendBuffer(b, v []byte) []byte {
	if v == nil {
		return appendInt(b, -1)
	}
	return append(appendInt(b, int32(len(v))), v...)
}

func appendACL(b []byte, acl []ACL) []byte {
	b = appendInt(b, int32(len(acl)))
	for _, entry := range acl {
		b = appendInt(b, entry.Perms)
		b = appendBuffer(appendBuffer(b, []byte(entry.Scheme)), []byte(entry.ID))
	}
	return b
}
