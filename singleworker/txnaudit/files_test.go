package txnaudit_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A txn is a transaction as ZooKeeper writes it, without its header.
type txn struct {
	zxid, session int64
	second        int
	kind          int32
	fields        []any // strings and byte slices with their lengths
}

func at(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 0).UTC() }

func fields(values ...any) []byte {
	buf := new(bytes.Buffer)
	for _, v := range values {
		switch data := v.(type) {
		case string:
			_ = binary.Write(buf, binary.BigEndian, int32(len(data)))
			buf.WriteString(data)
		case []byte:
			_ = binary.Write(buf, binary.BigEndian, int32(len(data)))
			buf.Write(data)
		default:
			_ = binary.Write(buf, binary.BigEndian, v)
		}
	}
	return buf.Bytes()
}

// write writes a log, and its name after its first transaction.
func write(t *testing.T, dir string, txns ...txn) {
	t.Helper()
	data := []byte("ZKLG\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, x := range txns {
		body := append(fields(x.session, int32(1), x.zxid, at(x.second).UnixMilli(), x.kind), fields(x.fields...)...)
		data = append(data, fields(int64(adler32.Checksum(body)), body)...)
		data = append(data, 'B')
	}
	save(t, dir, fmt.Sprintf("log.%x", txns[0].zxid), append(data, make([]byte, 1<<10)...))
}

func save(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	dir = filepath.Join(dir, "version-2")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A node of a snapshot, written by one transaction.
type node struct {
	path  string
	data  []byte
	zxid  int64
	owner int64
}

// snapshot writes a snapshot with some sessions.
func snapshot(t *testing.T, dir string, zxid int64, sessions []int64, nodes ...node) {
	t.Helper()
	data := append([]byte("ZKSN\x00\x00\x00\x02\xff\xff\xff\xff\xff\xff\xff\xff"), fields(int32(len(sessions)))...)
	for _, id := range sessions {
		data = append(data, fields(id, int32(10_000))...)
	}
	data = append(data, fields(int32(0))...) // no access control lists
	for _, n := range append([]node{{}}, nodes...) {
		data = append(data, fields(n.path, n.data, int64(1), n.zxid, n.zxid, at(0).UnixMilli(), at(0).UnixMilli(),
			int32(0), int32(0), int32(0), n.owner, n.zxid)...)
	}
	data = append(data, fields("/")...)
	data = append(data, fields(int64(adler32.Checksum(data)), "/")...)
	save(t, dir, fmt.Sprintf("snapshot.%x", zxid), data)
}

const (
	create  = 1
	set     = 5
	multi   = 14
	connect = -10
)

func connected(zxid, session int64) txn { return txn{zxid, session, 0, connect, []any{int32(10_000)}} }

// creates is a transaction that creates nodes. Nodes of instances are ephemeral.
func creates(zxid, session int64, second int, nodes ...zkrec.Node) txn {
	x := txn{zxid, session, second, multi, []any{int32(len(nodes))}}
	for _, n := range nodes {
		ephemeral := filepath.Dir(n.Path) == tree.Instances()
		x.fields = append(x.fields, int32(create), fields(n.Path, n.Data, int32(0), ephemeral, int32(0)))
	}
	return x
}

// sets is a transaction that writes nodes.
func sets(zxid, session int64, second int, nodes ...zkrec.Node) txn {
	return setsTo(1, zxid, session, second, nodes...)
}

// setsTo is one that writes a version of nodes.
func setsTo(version int32, zxid, session int64, second int, nodes ...zkrec.Node) txn {
	x := txn{zxid, session, second, multi, []any{int32(len(nodes))}}
	for _, n := range nodes {
		x.fields = append(x.fields, int32(set), fields(n.Path, n.Data, version))
	}
	return x
}

var tree = zkrec.NewTree("apps/g")

// story is the life of job j at instance a: transactions 1 to 5 begin, and each further two are a
// run, from tick 10 on every ten seconds.
func story(runs int) (txns []txn) {
	spec := zkrec.Spec{Job: job.Job{Schedule: "*/10 * * * * ?"}}
	txns = []txn{
		connected(1, 7), connected(2, 8),
		creates(3, 7, 0, zkrec.Node{Path: tree.Instance("a"), Data: zkrec.Instance{Incarnation: "a!"}.Encode()}),
		creates(4, 8, 0, tree.NewJob("j", spec)...),
		sets(5, 7, 1, zkrec.Node{Path: tree.Alive("j"), Data: zkrec.Owner{SID: "a", Incarnation: "a!"}.Encode()}),
	}
	var log zkrec.Log
	for n := range runs {
		rec, zxid := claim(10*(n+1)), int64(6+2*n)
		rec.History = log.Mark()
		txns = append(txns, sets(zxid, 7, 10*(n+1), zkrec.Node{Path: tree.Tick("j"), Data: rec.Encode()}))
		rec.State = history.StateOK
		log = log.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: rec.Run})
		rec.History = log.Mark()
		written := []zkrec.Node{{Path: tree.Tick("j"), Data: rec.Encode()}}
		for _, page := range log.Changed() {
			written = append(written, zkrec.Node{Path: tree.HistoryPage("j", page), Data: log.Encode(page)})
		}
		txns = append(txns, sets(zxid+1, 7, 10*(n+1)+1, written...))
	}
	return txns
}

func claim(second int) zkrec.Tick {
	tick := at(second).UnixMilli()
	return zkrec.Tick{Watermark: tick, Run: zkrec.Run{
		Tick: tick, RunID: fmt.Sprint("r", second), SID: "a", Token: 5, Attempt: 1, State: history.StateRunning,
	}}
}

// forged is a transaction in which the last of n runs is claimed again, in an operator's session.
func forged(n int) txn {
	rec := claim(10 * n)
	rec.RunID = "forged"
	return sets(int64(6+2*n), 8, 10*n+2, zkrec.Node{Path: tree.Tick("j"), Data: rec.Encode()})
}
