package durable

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
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
	s, err := open(Config{Listen: "127.0.0.1:0"}, fullDisk{directory(t.TempDir())})
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
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for len(events) > 0 {
		if e := <-events; e.State == zk.StateHasSession {
			t.Error("a session is acknowledged that is not on disk")
		}
	}
}
