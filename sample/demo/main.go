// Command demo shows in 15 seconds singleworker at work: three instances, each a process, share
// nine jobs; one is killed with SIGKILL, one is stopped, a job is canceled. Then it checks every
// run: no tick ran twice, and none was lost.
//
//	go run github.com/swjobs/singleworker/sample/demo@latest
//	go run ./sample/demo --zk 127.0.0.1:2181
//
// The last line is PASS and the figures (exit code 0), or FAIL and the reason (exit code
// 1). Without --zk the demo has a ZooKeeper server in memory.
//
// story.go has one function per step and reads like an operator's script: it starts processes,
// sends them signals, and queries package admin. Everything goes into a record (package record),
// and the verdict is based on that record alone.
//
// The instances are real processes: this program, started again with the argument "instance"
// (children.go). None of them outlives the demo: at the end they are stopped, or killed if they do
// not stop. Each also exits when its standard input is closed, which happens if the demo is killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // jobs name time zones, and a slim container has no zone files

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// instanceArgument makes this program one of the demo's instances.
const instanceArgument = "instance"

// The exit codes besides 0.
const (
	exitFail  = 1
	exitUsage = 2
	exitError = 70
)

func main() {
	ctx, stop := untilSignal(context.Background())
	code := 0
	if len(os.Args) > 1 && os.Args[1] == instanceArgument {
		if err := runInstance(ctx, os.Args[2:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "demo instance:", err)
			code = exitError
		}
	} else {
		code = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	os.Exit(code)
}

// run runs the demo for the given arguments and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage
	}
	cfg.Out, cfg.Color = stdout, isTerminal(stdout) && os.Getenv("NO_COLOR") == ""
	return exitCodeOf(play(ctx, cfg), stderr)
}

func exitCodeOf(err error, stderr io.Writer) int {
	stopped := new(signalError)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFailed): // it has printed why
		return exitFail
	case errors.As(err, &stopped):
		fmt.Fprintln(stderr, "demo:", err)
		return 128 + int(stopped.signal)
	}
	fmt.Fprintln(stderr, "demo:", err)
	return exitError
}

func parseFlags(args []string, stderr io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.Servers, "zk", "", "ZooKeeper `servers`, host:port,...[/chroot] (default: one in memory)")
	flags.StringVar(&cfg.ServerType, "server-type", "", "`name` of the group; it must have no jobs or instances (default: demo in memory, else a new name)")
	flags.BoolVar(&cfg.Keep, "keep", false, "keep the record and the logs of the instances, and print where they are")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("demo: unexpected argument %q; see --help", flags.Arg(0))
		fmt.Fprintln(stderr, err)
		return config{}, err
	}
	return cfg, nil
}

// play runs the demo, on a server in memory unless cfg names one.
func play(ctx context.Context, cfg config) error {
	if cfg.Instance == nil {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program to start instances: %w", err)
		}
		cfg.Instance = []string{program, instanceArgument}
	}
	if cfg.Servers != "" {
		cfg.About = "external"
		if cfg.ServerType != "" {
			return runDemo(ctx, cfg)
		}
		cfg.ServerType = fmt.Sprintf("demo-%08x", rand.Uint32())
		err := runDemo(ctx, cfg)
		fmt.Fprintf(cfg.Out, "to remove the remaining empty nodes: zkCli.sh -server %s deleteall /%s\n", cfg.Servers, cfg.ServerType)
		return err
	}
	if cfg.ServerType == "" {
		cfg.ServerType = "demo"
	}
	const keepLog = -1 // the log of transactions is not needed
	server, err := zkdev.New(zkdev.Config{KeepLog: keepLog})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return err
	}
	defer server.Stop()
	cfg.Servers, cfg.About = server.Addr(), "in memory, in this process"
	return runDemo(ctx, cfg)
}

// signalError is the cause of a context that was canceled by a signal.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "stopped by signal: " + e.signal.String() }

// untilSignal returns a context that ends with the first signal to stop. That includes a closed
// terminal or output pipe: neither may leave files or processes behind. A second signal has its
// usual effect.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancelCause(parent)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	go func() {
		defer signal.Stop(caught)
		select {
		case s := <-caught:
			if sig, ok := s.(syscall.Signal); ok {
				cancel(&signalError{sig})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func isTerminal(stream io.Writer) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
