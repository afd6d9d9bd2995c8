package zkdev_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/internal/zxids"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A renewed server has the nodes of the snapshot without its sessions. Each client gets a new one,
// also who had its session then. Zxids continue a leap above, and all data is from there.
func TestRenew(t *testing.T) {
	bubble(t, func(t *virtual) {
		conn, events := connect(t, t.server)
		create(t, conn, "/mine", zk.FlagEphemeral)
		create(t, conn, "/a", 0)
		snapshot := t.server.Snapshot()
		set(t, conn, "/a")
		last := t.server.Zxid()
		if err := t.server.Renew(snapshot); err != nil {
			t.Fatal(err)
		}
		await(t, events, zk.StateExpired)
		await(t, events, zk.StateHasSession)
		if exists(t, conn, "/mine") {
			t.Error("a node of a session is there")
		}
		_, restored, err := conn.Get("/a")
		if err != nil || restored.Version != 0 || restored.Czxid > last || !zxids.Restored(last, restored.Mzxid) {
			t.Errorf("%+v after zxid %#x, %v", restored, last, err)
		}
		set(t, conn, "/a")
		if _, stat, err := conn.Get("/a"); err != nil || stat.Mzxid <= restored.Mzxid || stat.Version != 1 {
			t.Errorf("%+v, %v", stat, err)
		}
	})
}

// A restored server has the nodes and sessions of the snapshot. Clients with such a session keep
// it, the others get a new one, and zxids continue.
func TestRestore(t *testing.T) {
	bubble(t, func(t *virtual) {
		keeps, kept := connect(t, t.server)
		create(t, keeps, "/mine", zk.FlagEphemeral)
		create(t, keeps, "/a", 0)
		snapshot := t.server.Snapshot()
		loses, lost := connect(t, t.server)
		create(t, loses, "/late", zk.FlagEphemeral)
		set(t, keeps, "/a")
		last := t.server.Zxid()
		if err := t.server.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		await(t, kept, zk.StateHasSession)
		await(t, lost, zk.StateExpired)
		await(t, lost, zk.StateHasSession)
		wantVersion(t, keeps, 0)
		if exists(t, keeps, "/late") || !exists(t, keeps, "/mine") {
			t.Error("not as in the snapshot")
		}
		set(t, loses, "/a")
		if _, stat, err := keeps.Get("/a"); err != nil || stat.Mzxid <= last || stat.Version != 1 {
			t.Errorf("%+v, %v", stat, err)
		}
		time.Sleep(2 * session)
		if n := len(t.server.Sessions()); n != 2 {
			t.Errorf("%d sessions", n)
		}
	})
}

// readOnlyHello is the frame of a connect request with the read-only flag.
func readOnlyHello() []byte {
	b := append(hello(0, 4000, 0), 1)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// codeOf sends a request with a path, and returns the code of the answer.
func codeOf(t *virtual, conn net.Conn, op zkdev.Op, path string) zkdev.Code {
	t.Helper()
	record := append(binary.BigEndian.AppendUint32(nil, uint32(len(path))), path...)
	frame := binary.BigEndian.AppendUint32(nil, uint32(8+len(record)+1))
	frame = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(frame, 1), uint32(op))
	if _, err := conn.Write(append(append(frame, record...), 0)); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(conn, body); err != nil {
		t.Fatal(err)
	}
	return zkdev.Code(int32(binary.BigEndian.Uint32(body[12:])))
}

// A read-only server lets in who asks for one, and lets it only read. Nobody's session ends. When
// the quorum is back, the others go on as if nothing had been.
func TestReadOnly(t *testing.T) {
	bubble(t, func(t *virtual) {
		member, events := connect(t, t.server)
		create(t, member, "/mine", zk.FlagEphemeral)
		zxid := t.server.Zxid()
		greeted := func() (net.Conn, byte) {
			conn, greeting := dial(t, t.server, readOnlyHello()), make([]byte, 41)
			if _, err := io.ReadFull(conn, greeting); err != nil {
				t.Fatal(err)
			}
			return conn, greeting[40]
		}
		if _, flag := greeted(); flag != 0 {
			t.Error("a server with a quorum says that it is read-only")
		}
		if err := t.server.SetReadOnly(true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * session)
		wantClosed(t, dial(t, t.server, hello(0, 4000, 0)))
		conn, flag := greeted()
		if flag != 1 {
			t.Error("it does not say that it is read-only")
		}
		for op, want := range map[zkdev.Op]zkdev.Code{
			zkdev.OpGetData: zkdev.OK, zkdev.OpExists: zkdev.OK, zkdev.OpGetChildren: zkdev.OK,
			zkdev.OpSync: zkdev.NotReadOnly, zkdev.OpCreate: zkdev.NotReadOnly, zkdev.OpMulti: zkdev.NotReadOnly, zkdev.OpDelete: zkdev.NotReadOnly,
		} {
			if code := codeOf(t, conn, op, "/mine"); code != want {
				t.Errorf("%v: %v, want %v", op, code, want)
			}
		}
		asked := dial(t, t.server, []byte("srvr"))
		if answer, err := io.ReadAll(asked); err != nil || !strings.Contains(string(answer), "\nMode: read-only\n") {
			t.Errorf("srvr: %q, %v", answer, err)
		}
		if err := t.server.SetReadOnly(false); err != nil {
			t.Fatal(err)
		}
		await(t, events, zk.StateHasSession)
		if now := t.server.Zxid(); !exists(t, member, "/mine") || now < zxid || now > zxid+1 || len(t.server.Sessions()) != 2 {
			t.Errorf("zxid %d, want %d and the other session; sessions %+v", now, zxid, t.server.Sessions())
		}
	})
}
