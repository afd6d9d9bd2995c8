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

// Main is for the TestMain of a package whose tests need servers: it runs the tests, by
// testing.M's Run, and returns the exit code. On a machine that can run no server it says
// once what to install, where each test would say so, runs none, and returns 1.
func Main(run func() int) int {
	flag.Parse()
	if list := flag.Lookup("test.list"); list.Value.String() != "" {
		return run() // names only
	}
	if err := check(); err != nil {
		fmt.Fprintf(os.Stderr, "No test of this package was run: they need a real ZooKeeper.\n%v\n"+
			"Everything that needs none is tested by 'make race'.\n", err)
		return 1
	}
	return run()
}

// check says what is missing to run a server.
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
