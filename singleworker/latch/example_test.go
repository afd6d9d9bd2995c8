package latch_test

import (
	"context"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/latch"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// serve starts a server for the examples; a real program connects to ZooKeeper.
func serve() (servers string, stop func()) {
	server, err := zkdev.New(zkdev.Config{})
	check(err)
	check(server.Start())
	return server.Addr(), server.Stop
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleLatch_Lead() {
	servers, stop := serve()
	defer stop()
	l, err := latch.New(latch.Config{Servers: servers, Path: "/billing/leader"})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	err = l.Lead(ctx, func(ctx context.Context) error {
		term, _ := latch.TermFrom(ctx)
		fmt.Println("leading, with a token:", term.Token > 0)
		cancel() // as a signal would
		<-ctx.Done()
		fmt.Println("leadership lost:", context.Cause(ctx))
		return nil
	})
	check(err)
	// Output:
	// leading, with a token: true
	// leadership lost: latch: stopped
}

func ExampleLatch_Held() {
	servers, stop := serve()
	defer stop()
	l, err := latch.New(latch.Config{Servers: servers, Path: "/billing/leader", ID: "first"})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()

	_, err = l.Await(ctx)
	check(err)
	_, held := l.Held() // reads the clock, sends no request
	leader, err := l.Leader(ctx)
	check(err)
	fmt.Println("held:", held, "leader:", leader.ID)

	cancel()
	check(<-ended)
	_, held = l.Held()
	fmt.Println("held:", held)
	// Output:
	// held: true leader: first
	// held: false
}
