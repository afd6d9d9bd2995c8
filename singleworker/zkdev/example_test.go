package zkdev_test

import (
	"fmt"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// start replaces zkdev.Start, which needs a testing.TB.
func start(config zkdev.Config) *zkdev.Server {
	server, err := zkdev.New(config)
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		panic(err)
	}
	return server
}

// dialZK connects a client in the process.
func dialZK(d dialer) *zk.Conn {
	conn, _, err := zk.Connect([]string{"127.0.0.1:1"}, 4*time.Second, zk.WithLogger(silent{}), zk.WithDialer(d.DialTimeout))
	if err != nil {
		panic(err)
	}
	return conn
}

func Example() {
	server := start(zkdev.Config{}) // in a test: zkdev.Start(t, zkdev.Config{})
	defer server.Stop()

	conn := dialZK(server)
	defer conn.Close()
	path, err := conn.Create("/job-", []byte("data"), zk.FlagSequence, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)
	// Output: /job-0000000000 <nil>
}

// A client whose connection breaks does not know whether its write was applied. Here it was.
func ExampleServer_Control() {
	server := start(zkdev.Config{})
	defer server.Stop()
	conn := dialZK(server)
	defer conn.Close()

	server.Control(zkdev.OpCreate, func(r *zkdev.Request) zkdev.Action {
		fmt.Println("losing the reply to", r.Op, r.Path)
		return zkdev.CutAfter()
	})
	_, err := conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	_, err = conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	// Output:
	// losing the reply to create /a
	// zk: connection closed
	// zk: node already exists
}

// Each instance under test dials through a separate Client, so that one of them can be partitioned.
func ExampleClient_Partition() {
	server := start(zkdev.Config{Tick: 250 * time.Millisecond}) // so sessions last 5s at most
	defer server.Stop()
	one, two := dialZK(server.Client("one")), dialZK(server.Client("two"))
	defer one.Close()
	defer two.Close()
	_, _ = one.Create("/owner", []byte("one"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	_, _, gone, err := two.ExistsW("/owner")
	if err != nil {
		panic(err)
	}

	server.Client("one").Partition()
	fmt.Println((<-gone).Type) // when the session of one has expired
	server.Client("one").Heal()
	// Output: EventNodeDeleted
}

func ExampleServer_Log() {
	server := start(zkdev.Config{})
	defer server.Stop()
	conn := dialZK(server)
	_, _ = conn.Create("/a", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	_, _ = conn.Set("/a", nil, 7)
	conn.Close()
	for _, txn := range server.Log() {
		fmt.Println(txn.Zxid, txn.Op, txn.Path, txn.Code)
	}
	// Output:
	// 1 connect  ok
	// 2 create /a ok
	// 3 setData /a bad version
	// 4 closeSession  ok
	// 4 delete /a ok
}

func ExampleServer_Dump() {
	server := start(zkdev.Config{})
	defer server.Stop()
	_ = server.Dump(os.Stdout)
	// Output:
	// / v0 c-1 mzxid=0x0 ""
	// /zookeeper v0 c-2 mzxid=0x0 ""
	// /zookeeper/config v0 c0 mzxid=0x0 ""
	// /zookeeper/quota v0 c0 mzxid=0x0 ""
}
