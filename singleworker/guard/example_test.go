package guard_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/guard"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A supervisor starts a program with the guard's variable in its environment, and deregisters its
// instances as soon as it has ended, however it has: their jobs are taken over without waiting for
// a session to expire. "swctl guard" is this as a command.
func Example() {
	server, err := zkdev.New(zkdev.Config{}) // a program has ZooKeeper
	check(err)
	check(server.Start())
	defer server.Stop()
	g, err := guard.New(admin.Config{Servers: server.Addr(), ServerType: "billing"})
	check(err)
	defer g.Close()

	program := exec.Command("go", "version") //nolint:noctx // an example
	program.Env = append(os.Environ(), g.Env())
	fmt.Println(program.Run())

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	gone, err := g.Deregister(ctx, func(guard.Instance) bool { return true }) // this was the only process
	check(err)
	fmt.Println(len(gone.Removed), "instances were left")
	// Output:
	// <nil>
	// 0 instances were left
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
