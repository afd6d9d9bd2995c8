package zkdev_test

import (
	"errors"
	"io"
	"iter"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A slowStore is a disk that can be held up, or fail.
type slowStore struct {
	free  chan struct{} // has one element, which hold takes
	fails error
	zxids []int64
}

func newSlowStore() *slowStore {
	s := &slowStore{free: make(chan struct{}, 1)}
	s.release()
	return s
}

func (s *slowStore) hold() { <-s.free }

func (s *slowStore) release() { s.free <- struct{}{} }

func (s *slowStore) Recover(func(int64, *txnlog.Snapshot, []txnlog.Node) error, func(*txnlog.Txn) error) (int64, error) {
	return 0, nil
}

func (s *slowStore) Append(first int64, _ []byte) error {
	s.hold()
	defer s.release()
	s.zxids = append(s.zxids, first)
	return s.fails
}

func (s *slowStore) Due() bool { return false }

func (s *slowStore) Snapshot(int64, *txnlog.Snapshot, iter.Seq[txnlog.Node]) error { return nil }

// onDisk runs a test in virtual time, with a server that has a slowStore.
func onDisk(t *testing.T, test func(t *virtual, disk *slowStore)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := newSlowStore()
		test(&virtual{T: t, server: zkdev.Start(t, zkdev.Config{NoListen: true, Store: disk})}, disk)
	})
}

// TestNobodySeesWhatIsNotOnDisk holds the disk up after a write. Neither its client, nor one that
// watches the node, nor one that reads it, nor one that connects or asks for the server's state
// hears anything. A client that has something to say keeps its session, however long that takes.
func TestNobodySeesWhatIsNotOnDisk(t *testing.T) {
	onDisk(t, func(t *virtual, disk *slowStore) {
		server := t.server
		writer, _ := connect(t, server)
		reader, _ := connect(t, server)
		_, _, created, err := reader.ExistsW("/a")
		if err != nil {
			t.Fatal(err)
		}
		disk.hold()
		heard := make(chan string, 10)
		go func() {
			if _, err := writer.Create("/a", nil, 0, zk.WorldACL(zk.PermAll)); err == nil {
				heard <- "reply"
			}
		}()
		synctest.Wait()
		go func() {
			if there, _, _ := reader.Exists("/a"); there {
				heard <- "read"
			}
		}()
		go func() {
			<-created
			heard <- "event"
		}()
		words, err := server.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(words, "srvr")
			_, _ = io.ReadAll(words)
			heard <- "words"
		}()
		third, _, err := zk.Connect([]string{"127.0.0.1:1"}, session, zk.WithLogger(silent{}), zk.WithDialer(server.DialTimeout),
			zk.WithEventCallback(func(e zk.Event) {
				if e.State == zk.StateHasSession {
					heard <- "session"
				}
			}))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(session / 4)
		synctest.Wait()
		var early []string
		for len(heard) > 0 {
			early = append(early, <-heard)
		}
		if early != nil {
			t.Errorf("before the transaction is on disk: %q", early)
		}
		disk.release()
		for range 5 - len(early) {
			<-heard
		}
		third.Close()
		for _, conn := range []*zk.Conn{writer, reader} {
			if conn.SessionID() == 0 {
				t.Error("a session was lost")
			}
			conn.Close()
		}
	})
}

// TestOneFsyncForMany: writes that arrive while the disk is busy are on disk together.
func TestOneFsyncForMany(t *testing.T) {
	onDisk(t, func(t *virtual, disk *slowStore) {
		server := t.server
		conn, _ := connect(t, server)
		defer conn.Close()
		if _, err := conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		disk.hold()
		before := len(disk.zxids)
		var writes sync.WaitGroup
		for range 50 {
			writes.Go(func() {
				if _, err := conn.Set("/a", nil, -1); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		disk.release()
		writes.Wait()
		disk.hold()
		defer disk.release()
		if n := len(disk.zxids) - before; n > 2 {
			t.Errorf("%d calls for 50 writes", n)
		}
	})
}

// TestStopsIfTheDiskFails: a write that is not on disk is not acknowledged, and nothing is after
// it.
func TestStopsIfTheDiskFails(t *testing.T) {
	onDisk(t, func(t *virtual, disk *slowStore) {
		server := t.server
		conn, _ := connect(t, server)
		defer conn.Close()
		disk.hold()
		disk.fails = errors.New("input/output error")
		disk.release()
		if _, err := conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("the write: %v", err)
		}
		synctest.Wait()
		if _, err := server.Dial(t.Context(), "", ""); !errors.Is(err, zkdev.ErrStopped) {
			t.Errorf("another client: %v, want ErrStopped", err)
		}
	})
}

// TestWordsOfAHalfClosedConnection: a client that says no more still gets its answer, even if that
// waits for the disk.
func TestWordsOfAHalfClosedConnection(t *testing.T) {
	t.Parallel()
	disk := newSlowStore()
	server := zkdev.Start(t, zkdev.Config{Store: disk})
	conn, _ := connect(t, server)
	disk.hold()
	created := make(chan error, 1)
	go func() {
		_, err := conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
		created <- err
	}()
	for server.Zxid() < 2 { // it has arrived
		time.Sleep(time.Millisecond)
	}
	nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, _ = io.WriteString(nc, "ruok")
	if half, ok := nc.(*net.TCPConn); !ok || half.CloseWrite() != nil {
		t.Fatal("cannot close half of the connection")
	}
	time.Sleep(10 * time.Millisecond) // the server reads that; an earlier answer makes no difference
	disk.release()
	if answer, err := io.ReadAll(nc); string(answer) != "imok" {
		t.Errorf("%q, %v", answer, err)
	}
	if err := <-created; err != nil {
		t.Error(err)
	}
	conn.Close()
}
