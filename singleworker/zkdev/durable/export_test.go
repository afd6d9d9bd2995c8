package durable_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

// TestExport: each member has all of the data, its number and the addresses of all. A server starts
// on the data of each. The directory of a server that runs is refused, and so are one without data
// and a target that exists.
func TestExport(t *testing.T) {
	t.Parallel()
	dir, to, hosts := t.TempDir(), filepath.Join(t.TempDir(), "members"), []string{"zk1", "zk2", "zk3"}
	if err := durable.Export(dir, to, hosts); !errors.Is(err, durable.ErrEmpty) {
		t.Errorf("without data: %v", err)
	}
	for _, bad := range [][]string{nil, {""}, {"zk1", "../zk2"}, {".."}, {"zk1:2181"}, {"zk1", "zk1"}} {
		if err := durable.Export(dir, to, bad); !errors.As(err, new(*invalid.FieldError)) {
			t.Errorf("hosts %q: %v", bad, err)
		}
	}
	s := serve(t, dir, "127.0.0.1:0")
	conn := connect(t, s.Addr())
	if _, err := conn.Create("/a", []byte("data"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if err := durable.Export(dir, to, hosts); !errors.Is(err, durable.ErrInUse) {
		t.Errorf("while a server runs: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	logs, err := filepath.Glob(filepath.Join(dir, "version-2", "log.*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%q, %v", logs, err)
	}
	torn, err := os.OpenFile(logs[0], os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = torn.Write([]byte{1, 2, 3})
	}
	if err := errors.Join(err, torn.Close()); err != nil {
		t.Fatal(err)
	}
	if err := durable.Export(dir, to, hosts); err != nil {
		t.Fatal(err)
	}
	if err := durable.Export(dir, to, hosts); !errors.Is(err, os.ErrExist) {
		t.Errorf("again: %v", err)
	}
	for i, host := range hosts {
		member := filepath.Join(to, host)
		if id, err := os.ReadFile(filepath.Join(member, "data", "myid")); err != nil || string(id) != string(rune('1'+i))+"\n" {
			t.Errorf("%s: myid is %q, %v", host, id, err)
		}
		config, err := os.ReadFile(filepath.Join(member, "zoo.cfg"))
		if err != nil || !bytes.HasSuffix(config, []byte("\nserver.1=zk1:2888:3888\nserver.2=zk2:2888:3888\nserver.3=zk3:2888:3888\n")) {
			t.Errorf("%s: zoo.cfg is %s, %v", host, config, err)
		}
		if log, err := os.ReadFile(filepath.Join(member, "data", "version-2", filepath.Base(logs[0]))); err != nil || bytes.HasSuffix(log, []byte{1, 2, 3}) {
			t.Errorf("%s: the torn end of the log is there, %v", host, err)
		}
		again := serve(t, filepath.Join(member, "data"), "127.0.0.1:0")
		conn := connect(t, again.Addr())
		if data, _, err := conn.Get("/a"); string(data) != "data" || err != nil {
			t.Errorf("%s: /a is %q, %v", host, data, err)
		}
		conn.Close()
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
