package txnlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
)

var update = flag.Bool("update", false, "write the golden file")

const written = "testdata/version-2/log.1" // by ZooKeeper 3.8.0, and cut after 4096 of its 1 MB

// TestFilesOf38 reads files that a ZooKeeper 3.8.0 has written.
func TestFilesOf38(t *testing.T) {
	t.Parallel()
	files, err := txnlog.List("testdata")
	if err != nil || len(files.Logs) != 1 || len(files.Snapshots) != 2 {
		t.Fatalf("%+v, %v", files, err)
	}
	var text strings.Builder
	logs := txnlog.NewLogs(files.Logs)
	txns, err := drain(logs)
	if err != nil || logs.Torn != nil || logs.Done() != files.Logs[0].Size {
		t.Errorf("read %d bytes: %v, torn: %v", logs.Done(), err, logs.Torn)
	}
	for _, txn := range txns {
		fmt.Fprintf(&text, "%d kind %d timeout %v session %d\n", txn.Zxid, txn.Kind, txn.Timeout, txn.Session&0xf)
		for _, op := range txn.Ops {
			fmt.Fprintf(&text, "  %v %s %q v%d ephemeral %v\n", op.Type, op.Path, op.Data, op.Version, op.Owner != 0)
		}
	}
	for _, file := range files.Snapshots {
		fmt.Fprintf(&text, "snapshot %#x\n", file.Zxid)
		s, err := file.Visit(func(n txnlog.Node) {
			fmt.Fprintf(&text, "  %q %q v%d czxid %d mzxid %d pzxid %d ephemeral %v\n", n.Path, n.Data, n.Version, n.Czxid, n.Mzxid, n.Pzxid, n.Owner != 0)
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "  %d nodes, through %d, sessions of %v\n", s.Nodes, s.Through, slices.Collect(values(s.Sessions)))
	}
	const path = "testdata/files.golden"
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || text.String() != string(want) {
		t.Errorf("%v; got\n%s\nrun the test with -update and look at the difference", err, text.String())
	}
}

func values[K comparable, V any](m map[K]V) func(func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// source is a Reader, or Logs.
type source interface{ Next() (txnlog.Txn, error) }

// drain reads to the end.
func drain(from source) (txns []txnlog.Txn, err error) {
	for {
		txn, err := from.Next()
		if errors.Is(err, io.EOF) {
			return txns, nil
		}
		if err != nil {
			return txns, err
		}
		txns = append(txns, txn)
	}
}

// read reads a log to its end.
func read(data []byte) ([]txnlog.Txn, error) {
	r, err := txnlog.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return drain(r)
}

func mustRead(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// record makes a log's record of a body.
func record(body []byte) []byte {
	head := binary.BigEndian.AppendUint64(nil, uint64(adler32.Checksum(body)))
	head = binary.BigEndian.AppendUint32(head, uint32(len(body)))
	return append(append(head, body...), 'B')
}

// txn makes the body of a record: the header, and then fields as they are.
func txn(zxid int64, kind int32, fields ...any) []byte {
	buf := new(bytes.Buffer)
	for _, field := range append([]any{int64(1), int32(2), zxid, int64(1000), kind}, fields...) {
		if text, ok := field.(string); ok {
			_ = binary.Write(buf, binary.BigEndian, int32(len(text)))
			field = []byte(text)
		}
		_ = binary.Write(buf, binary.BigEndian, field)
	}
	return buf.Bytes()
}

func log(records ...[]byte) []byte {
	head := append([]byte("ZKLG\x00\x00\x00\x02"), make([]byte, 8)...)
	return append(head, bytes.Join(records, nil)...)
}

// TestDamagedLogs: where ZooKeeper ends a log, it ends, and anything else that is wrong is an
// error.
func TestDamagedLogs(t *testing.T) {
	t.Parallel()
	first, second := record(txn(1, -10, int32(4000))), record(txn(2, 2, "/a"))
	wrong := slices.Clone(second)
	wrong[20]++
	long := slices.Clone(second)
	binary.BigEndian.PutUint32(long[8:], 1<<30)
	negative := slices.Clone(second)
	binary.BigEndian.PutUint32(negative[8:], 1<<31)
	for _, tt := range []struct {
		name string
		data []byte
		n    int
		want error
	}{
		{"whole", log(first, second), 2, nil},
		{"nothing", nil, 0, txnlog.ErrTorn},
		{"half a head", log()[:9], 0, txnlog.ErrTorn},
		{"another file", []byte("PK\x03\x04 and so on, for a while"), 0, txnlog.ErrCorrupt},
		{"a snapshot", append([]byte("ZKSN\x00\x00\x00\x02"), make([]byte, 8)...), 0, txnlog.ErrCorrupt},
		{"another version", append([]byte("ZKLG\x00\x00\x00\x03"), make([]byte, 8)...), 0, txnlog.ErrCorrupt},
		{"no record", log(), 0, nil},
		{"preallocated", log(first, make([]byte, 1<<12)), 1, nil},
		{"half a record", log(first, second[:20]), 1, txnlog.ErrTorn},
		{"half a length", log(first, second[:9]), 1, txnlog.ErrTorn},
		{"torn in preallocated space", log(first, second[:20], make([]byte, 1<<12)), 1, txnlog.ErrTorn},
		{"without its end", log(first, second[:len(second)-1]), 1, txnlog.ErrTorn},
		{"a wrong checksum", log(first, wrong), 1, txnlog.ErrCorrupt},
		{"a giant length", log(first, long), 1, txnlog.ErrCorrupt},
		{"a negative length", log(first, negative), 1, txnlog.ErrCorrupt},
		{"a body that is too short", log(first, record(make([]byte, 8))), 1, txnlog.ErrCorrupt},
		{"a path that is too long", log(first, record(txn(2, 2, int32(1<<30)))), 1, txnlog.ErrCorrupt},
		{"a vector that is too long", log(first, record(txn(2, 14, int32(1<<30)))), 1, txnlog.ErrCorrupt},
		{"an inner record that is too short", log(first, record(txn(2, 14, int32(1), int32(2), "/"))), 1, txnlog.ErrCorrupt},
		{"a type of a later version", log(first, record(txn(2, 99, "what"))), 2, nil},
		{"a refused transaction", log(first, record(txn(2, 14, int32(1), int32(-1), "\x00\x00\x00\x00"))), 2, nil},
	} {
		txns, err := read(tt.data)
		if len(txns) != tt.n || !errors.Is(err, tt.want) {
			t.Errorf("%s: %d transactions, %v; want %d, %v", tt.name, len(txns), err, tt.n, tt.want)
		}
	}
}

// TestLogsContinueAfterATornFile: a server that crashed begins another file.
func TestLogsContinueAfterATornFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second, third := record(txn(1, -10, int32(4000))), record(txn(2, 2, "/a")), record(txn(3, 2, "/b"))
	for name, data := range map[string][]byte{
		"log.1": log(first, second[:20]), "log.2": log(second), "log.3": {}, "log.4": log(third), "snapshot.0": nil, "log.txt": nil, "acceptedEpoch": nil,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := txnlog.List(dir)
	if err != nil || len(files.Logs) != 4 || len(files.Snapshots) != 1 {
		t.Fatalf("%+v, %v", files, err)
	}
	logs := txnlog.NewLogs(files.Logs)
	if txns, err := drain(logs); err != nil || len(txns) != 3 || len(logs.Torn) != 2 {
		t.Errorf("%d transactions, %v, torn: %v", len(txns), err, logs.Torn)
	}
	again := filepath.Join(dir, "again")
	if err := os.WriteFile(again, log(first, second, first, second, third), 0o600); err != nil {
		t.Fatal(err)
	}
	if txns, err := drain(txnlog.NewLogs([]txnlog.File{{Path: again}})); err != nil || len(txns) != 3 || txns[2].Zxid != 3 {
		t.Errorf("a server that has logged two transactions again: %+v, %v", txns, err)
	}
	if _, err := drain(txnlog.NewLogs([]txnlog.File{files.Logs[3], files.Logs[1]})); !errors.Is(err, txnlog.ErrCorrupt) {
		t.Errorf("files in the wrong order: %v", err)
	}
	if _, err := txnlog.List(filepath.Join(dir, "gone")); err == nil {
		t.Error("a directory that does not exist is listed")
	}
}

func TestFollows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		zxid, last int64
		want       bool
	}{
		{2, 1, true},
		{3, 1, false},
		{1, 1, false},
		{5<<32 | 1, 4<<32 | 77, true},
		{6<<32 | 1, 4<<32 | 77, true},
		{5<<32 | 2, 4<<32 | 77, false},
		{4<<32 | 1, 4<<32 | 77, false},
	} {
		if got := txnlog.Follows(tt.zxid, tt.last); got != tt.want {
			t.Errorf("%#x after %#x: %v", tt.zxid, tt.last, got)
		}
	}
}

// TestDamagedSnapshots cuts a snapshot at each byte, and changes each byte: no such thing is taken
// for a snapshot.
func TestDamagedSnapshots(t *testing.T) {
	t.Parallel()
	whole := mustRead(t, "testdata/version-2/snapshot.f")
	visit := func(data []byte) error {
		_, err := txnlog.ReadSnapshot(bytes.NewReader(data), func(txnlog.Node) {})
		return err
	}
	const trailer = 34 // the rest is what version 3.6 added after the checksum: the digest
	sealed := len(whole) - trailer
	for n := range sealed {
		if err := visit(whole[:n]); n < sealed-5 && !errors.Is(err, txnlog.ErrCorrupt) {
			t.Fatalf("cut at byte %d: %v", n, err)
		}
		changed := slices.Clone(whole)
		changed[n] ^= 0x41
		const headEnd = 16
		if err := visit(changed); (n < 8 || n >= headEnd) && n < sealed-5 && !errors.Is(err, txnlog.ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", n, err)
		}
	}
}

// TestMemoryIsBounded: a length that claims more than there is costs no memory.
func TestMemoryIsBounded(t *testing.T) {
	huge := log(record(txn(1, -10, int32(4000))))
	huge = binary.BigEndian.AppendUint32(append(huge, make([]byte, 8)...), 15<<20)
	snapshot := append([]byte("ZKSN\x00\x00\x00\x02"), make([]byte, 12)...)
	snapshot = binary.BigEndian.AppendUint32(snapshot, 1<<24)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := read(huge); !errors.Is(err, txnlog.ErrTorn) {
		t.Errorf("a record that is not there: %v", err)
	}
	if _, err := txnlog.ReadSnapshot(bytes.NewReader(snapshot), func(txnlog.Node) {}); !errors.Is(err, txnlog.ErrCorrupt) {
		t.Errorf("a table that is not there: %v", err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("took %d bytes for files of %d", used, len(huge)+len(snapshot))
	}
}

func FuzzLog(f *testing.F) {
	f.Add(mustRead(f, written))
	f.Add(log(record(txn(2, 14, int32(2), int32(1), "/a", int32(13), "/b"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		txns, err := read(data)
		if err != nil && !errors.Is(err, txnlog.ErrTorn) && !errors.Is(err, txnlog.ErrCorrupt) {
			t.Error(err)
		}
		if len(txns) > len(data) {
			t.Errorf("%d transactions in %d bytes", len(txns), len(data))
		}
	})
}

// FuzzRecord is FuzzLog for records that have the right checksum.
func FuzzRecord(f *testing.F) {
	f.Add(txn(2, 14, int32(1), int32(2), "\x00\x00\x00\x01/"))
	f.Add(txn(2, 5, "/a", "data", int32(3)))
	f.Add(txn(2, 1, "/a", "data", int32(1), int32(31), "world", "anyone", true, int32(3)))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := read(log(record(body))); err != nil && !errors.Is(err, txnlog.ErrCorrupt) {
			t.Error(err)
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	f.Add(mustRead(f, "testdata/version-2/snapshot.f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes := 0
		s, err := txnlog.ReadSnapshot(bytes.NewReader(data), func(txnlog.Node) { nodes++ })
		if err != nil && !errors.Is(err, txnlog.ErrCorrupt) || err == nil && s.Nodes != nodes {
			t.Errorf("%d nodes, %v", nodes, err)
		}
	})
}
