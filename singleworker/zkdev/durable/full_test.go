package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// fullDisk is a directory whose disk is full once there is a log.
type fullDisk struct{ directory }

type fullFile struct{ file }

func (fullFile) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func (d fullDisk) create(name string) (file, error) {
	f, err := d.directory.create(name)
	if err == nil && name == logName(1) {
		f = fullFile{f}
	}
	return f, err
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// TestFullDisk: the server says nothing and stops, with a reason.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s, err := open(Config{Listen: "127.0.0.1:0"}, fullDisk{directory(t.TempDir())}, "")
	if err != nil {
		t.Fatal(err)
	}
	s.lock = io.NopCloser(nil)
	conn, events, err := zk.Connect([]string{s.Addr()}, time.Minute, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-s.Failed()
	if err := s.Err(); !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, want ErrFull", err)
	}
	if err := s.Ready(); !errors.Is(err, ErrFull) {
		t.Errorf("Ready: %v, want ErrFull", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for len(events) > 0 {
		if e := <-events; e.State == zk.StateHasSession {
			t.Error("a session is acknowledged that is not on disk")
		}
	}
}

// TestNeverAgain: after an error nothing is written, although the disk would take it again: the
// kernel may have dropped the bytes of an fsync that has failed.
func TestNeverAgain(t *testing.T) {
	t.Parallel()
	disk := newCrashFS(-1)
	s, err := recovered(disk)
	if err != nil {
		t.Fatal(err)
	}
	disk.budget = 3 // to create the log, to extend it and to write to it
	if err := s.Append(1, []byte("a")); !errors.Is(err, errCrashed) {
		t.Fatalf("%v, want that of the fsync", err)
	}
	disk.budget = -1
	if err := s.Append(2, []byte("b")); !errors.Is(err, errCrashed) {
		t.Errorf("%v, want the same error", err)
	}
	if data := disk.names[logName(1)].data; bytes.HasSuffix(data, []byte("b")) || len(disk.names) != 2 {
		t.Errorf("the log has %q", data)
	}
}

// TestSnapshotsWhileItWorks: a server that writes snapshots under load removes what is older, and
// the next one has all nodes.
func TestSnapshotsWhileItWorks(t *testing.T) {
	t.Parallel()
	dir := directory(t.TempDir())
	start := func() (*store, *zkdev.Server, *zk.Conn) {
		s := newStore(dir, slog.New(slog.DiscardHandler))
		s.imageBytes, s.logBytes = 5000, 2000
		server, err := zkdev.New(zkdev.Config{Store: s})
		if err == nil {
			err = server.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		conn, _, err := zk.Connect([]string{server.Addr()}, time.Minute, zk.WithLogger(quiet{}))
		if err != nil {
			t.Fatal(err)
		}
		return s, server, conn
	}
	const nodes = 300
	s, server, conn := start()
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range nodes / 4 {
				if _, err := conn.Create(fmt.Sprintf("/%d-%d", w, i), make([]byte, 100), 0, zk.WorldACL(zk.PermAll)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	conn.Close()
	server.Stop()
	have, err := s.list()
	if err != nil || len(have.images) < 2 || len(have.images) > keptImages || have.images[len(have.images)-1] == 0 {
		t.Errorf("%+v, %v", have, err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	_, server, conn = start()
	defer server.Stop()
	defer conn.Close()
	children, _, err := conn.Children("/")
	if err != nil || len(children) != nodes+1 { // and /zookeeper
		t.Errorf("%d nodes, %v", len(children), err)
	}
}

// hungDisk is a directory whose files take until it is mended to be on disk.
type hungDisk struct {
	directory
	mended chan struct{}
}

type hungFile struct {
	file
	mended chan struct{}
}

func (f hungFile) sync() error {
	<-f.mended
	return nil
}

func (d hungDisk) create(name string) (file, error) {
	f, err := d.directory.create(name)
	return hungFile{f, d.mended}, err
}

// TestHungDisk: a server that waits for its disk is not ready, until the disk has answered.
func TestHungDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		disk := hungDisk{directory(dir), make(chan struct{})}
		s := newStore(disk, slog.New(slog.DiscardHandler))
		written := make(chan error)
		go func() { written <- s.Append(1, []byte("record")) }()
		time.Sleep(hanging - time.Second)
		if err := s.ready(); err != nil {
			t.Errorf("slow: %v", err)
		}
		time.Sleep(time.Second)
		if err := s.ready(); err == nil || err.Error() != "the disk hangs: a write has taken 5s" {
			t.Errorf("hung: %v", err)
		}
		close(disk.mended)
		if err := <-written; err != nil {
			t.Error(err)
		}
		if err := s.ready(); err != nil {
			t.Errorf("mended: %v", err)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
}
