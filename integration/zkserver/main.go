package zkserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Main is for the TestMain of packages whose tests need servers. It calls run, which is testing.M's
// Run, and returns the exit code. If the machine cannot run a server, it prints what to install,
// once instead of for each test, and returns 1.
func Main(run func() int) int {
	flag.Parse()
	if list := flag.Lookup("test.list"); list.Value.String() != "" {
		return run() // only lists tests
	}
	if err := check(); err != nil {
		fmt.Fprintf(os.Stderr, "No test of this package was run: they need a real ZooKeeper.\n%v\n"+
			"Everything that needs none is tested by 'make race'.\n", err)
		return 1
	}
	return run()
}

// check reports packages missing to run a server.
func check() error {
	script, err := findScript()
	if err != nil {
		return err
	}
	output, err := exec.CommandContext(context.Background(), script, "check").CombinedOutput()
	if text := strings.TrimSpace(string(output)); err != nil && text != "" {
		return errors.New(text)
	}
	return err
}
