package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/swjobs/singleworker/sample/demo"
)

// instanceCommand makes swctl an instance of the demo. It is no command for people, so
// neither help nor the pre-pass knows it.
const instanceCommand = "demo-instance"

// runInstance is a process that the demo has started.
func runInstance(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) exitCode {
	if err := demo.Instance(ctx, args, stdin, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "swctl %s: %v\n", instanceCommand, err)
		return exitInternal
	}
	return exitOK
}

// runDemo runs the demonstration, on a server in this process if no other is named.
func (c *call) runDemo(ctx context.Context, port int) error {
	cfg, err := c.demoConfig()
	if err != nil {
		return err
	}
	// Neither a closed terminal nor a reader that goes away may leave files.
	signals := []os.Signal{syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := untilOneOf(ctx, signals...)
	defer stop()
	if cfg.Servers != "" {
		return c.playDemo(ctx, cfg)
	}
	var played error
	ctx, end := context.WithCancel(ctx)
	defer end()
	err = c.serveAt(ctx, port, func(addr string) error {
		cfg.Servers = addr
		played = c.playDemo(ctx, cfg)
		end()
		return nil
	})
	return errors.Join(played, err)
}

// demoConfig is the demonstration that the flags ask for. Variables do not count:
// SWCTL_ZK and SWCTL_SERVER_TYPE may well be those of a production cluster.
func (c *call) demoConfig() (demo.Config, error) {
	if c.json && c.flags.IsSet(flagOutput) {
		return demo.Config{}, usage("dev --demo has no JSON output: it tells a story").try("the exit code: 0 is PASS, 1 is FAIL")
	}
	for _, flag := range []string{flagAuthFile, flagTLSCA, flagTLSCert, flagTLSKey} {
		if c.flags.IsSet(flag) {
			return demo.Config{}, usage("dev --demo has no --%s: its instances connect without", flag).
				try("leave it out, and let the demo have a server in memory")
		}
	}
	cfg := c.demo
	cfg.Out, cfg.Keep = c.stdout, c.flags.Bool("keep")
	cfg.Color = isTerminal(c.stdout) && c.env("NO_COLOR") == ""
	cfg.ServerType, cfg.About = "demo", "in memory, in this process"
	if c.flags.IsSet(flagZK) {
		if c.flags.IsSet("port") {
			return demo.Config{}, usage("--port and --zk exclude each other: a server of its own, or another one").try("one of the two")
		}
		cfg.Servers, cfg.About = c.zk, "not of the demo's making"
		cfg.ServerType = fmt.Sprintf("demo-%08x", rand.Uint32())
	}
	if c.flags.IsSet(flagServerType) {
		cfg.ServerType = c.serverType
	}
	if cfg.Instance == nil {
		program, err := os.Executable()
		if err != nil {
			return demo.Config{}, fmt.Errorf("dev --demo starts this program again: %w", err)
		}
		cfg.Instance = []string{program, instanceCommand}
	}
	return cfg, nil
}

func (c *call) playDemo(ctx context.Context, cfg demo.Config) error {
	cfg.Swctl = c.within(cfg.Servers, cfg.ServerType)
	err := demo.Run(ctx, cfg)
	if c.flags.IsSet(flagZK) && !c.flags.IsSet(flagServerType) {
		c.notef("%s may have nodes of the demo left, without jobs: zkCli.sh -server %s deleteall /%s removes them",
			c.zk, c.zk, cfg.ServerType)
	}
	return err
}

// within is swctl as it would run with the variables set to a group.
func (c *call) within(servers, serverType string) func(context.Context, ...string) (string, error) {
	vars := map[string]string{envZK: servers, envServerType: serverType}
	return func(ctx context.Context, args ...string) (string, error) {
		var stdout, stderr bytes.Buffer
		inner := *c.app
		inner.stdin, inner.stdout, inner.stderr, inner.interactive = strings.NewReader(""), &stdout, &stderr, false
		inner.env = func(name string) string { return vars[name] }
		if code := inner.run(ctx, args); code != exitOK {
			return "", errors.New(cmp.Or(oneLine(stderr.String()), fmt.Sprintf("exit code %d", code)))
		}
		return stdout.String(), nil
	}
}
