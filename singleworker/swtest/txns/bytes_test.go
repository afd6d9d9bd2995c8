package txns

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
)

// TestBytesOfALog: each byte that a ZooKeeper has logged is of one kind.
func TestBytesOfALog(t *testing.T) {
	t.Parallel()
	const dir = "../../internal/txnlog/testdata"
	file, err := os.ReadFile(dir + "/version-2/log.1")
	if err != nil {
		t.Fatal(err)
	}
	const head = 16
	want := len(bytes.TrimRight(file, "\x00")) - head
	end := time.Now()
	got, err := Bytes("a", dir, time.Time{}, end)
	sum := 0
	for _, n := range got {
		sum += n
	}
	if err != nil || sum != want {
		t.Errorf("%d bytes: %v, %v; want %d", sum, got, err, want)
	}
	for _, kind := range []string{"job", kindChecks, kindSessions, kindRefused, kindOthers} {
		if got[kind] == 0 {
			t.Errorf("nothing of kind %s: %v", kind, got)
		}
	}
	if got, err := Bytes("a", dir, end, end.Add(time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("later: %v, %v", got, err)
	}
}

// A transaction's bytes are divided among its operations, by kind.
func TestKinds(t *testing.T) {
	t.Parallel()
	model, got := ledger.NewModel(tree), make(map[string]int)
	op := func(path string) txnlog.Op { return txnlog.Op{Type: txnlog.SetData, Path: path} }
	check := txnlog.Op{Type: txnlog.Check, Path: tree.Job("j")}
	share(&txnlog.Txn{Kind: txnlog.Write, Bytes: 1001, Ops: []txnlog.Op{
		op(tree.Root()), op(tree.Job("j")), op(tree.Alive("j")), op(tree.Heartbeat("j", "a")), op(tree.Heartbeat("j[3]", "a")), op(tree.Tick("j/a")),
		op(tree.Instances()), op(tree.Instance("a")), op(tree.HandlerList("x")), check, check, check,
	}}, model, got)
	sum := 0
	for _, kind := range []string{kindOthers, "job", "alive", "alive/*", "tick", "_instances", "_handlers", kindChecks} {
		if got[kind] == 0 {
			t.Errorf("nothing of kind %s: %v", kind, got)
		}
		sum += got[kind]
	}
	if sum != 1001 || got["alive/*"] <= got["alive"] {
		t.Errorf("%d bytes: %v; want 1001, and two heartbeats are more than one owner record", sum, got)
	}
}
