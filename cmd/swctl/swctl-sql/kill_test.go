package main

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/storetest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The test binary is also swctl-sql: a test's arguments are flags, swctl's begin with a command.
// And it is an owner of testDeaths, and an instance of TestKills.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-"):
		os.Exit(m.Run())
	case os.Args[1] == ownerCommand:
		own(os.Args[2:])
	case os.Args[1] == askerCommand:
		answerFor(os.Args[2:])
	default:
		main()
	}
}

// A job has fewer runs in all than its history holds, so nothing may be missing, however slow the
// machine is.
const (
	jobs       = 500
	runsOfEach = 6
	inPieces   = 10 // of a second
)

// reader starts swctl runlog, and returns when it reads.
func reader(t *testing.T, zk, store string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "runlog", "--zk", zk, "--server-type", "killed") //nolint:noctx,gosec // it is killed; this test
	cmd.Env = append(os.Environ(), "SWCTL_STORE="+store)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if text, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(text, "keeping the run log") {
		kill()
		t.Fatalf("swctl runlog says %q, %v", text, err)
	}
	return kill
}

// killed has 500 runs a second logged by readers that are killed at random moments, and counts
// them.
func killed(t *testing.T, store string) {
	t.Helper()
	server, err := zkdev.New(zkdev.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	w := storetest.NewWriter(t, server.Addr(), "killed", jobs)
	written := make(chan error, 1)
	go func() {
		for i := range runsOfEach * inPieces {
			from := i % inPieces * jobs / inPieces
			if err := w.Write(t.Context(), from, from+jobs/inPieces); err != nil {
				written <- err
				return
			}
			time.Sleep(time.Second / inPieces)
		}
		written <- nil
	}()
	readers := 0
	for done := false; !done; readers++ {
		kill := reader(t, server.Addr(), store)
		select {
		case err := <-written:
			if done = true; err != nil {
				t.Fatal(err)
			}
		case <-time.After(rand.N(700 * time.Millisecond)):
		}
		kill()
	}
	defer reader(t, server.Addr(), store)()
	log := opener(t, store)()
	defer log.Close()
	for {
		runs, entries := count(t, log)
		if len(runs) == w.Runs() {
			t.Logf("%d runs, %d readers killed: none lost, none twice", len(runs), readers)
			if entries != len(runs) {
				t.Errorf("%d entries of %d runs", entries, len(runs))
			}
			return
		}
		time.Sleep(100 * time.Millisecond) // or until the test's time is over
	}
}

// count returns the runs that are in the log, and how many entries it has.
func count(t *testing.T, log runlog.Store) (runs map[string]bool, entries int) {
	t.Helper()
	runs = make(map[string]bool)
	for e, err := range log.Entries(t.Context(), runlog.Query{Group: "killed"}) {
		if err != nil {
			t.Fatal(err)
		}
		if entries++; e.Kind != runlog.Ran {
			t.Fatalf("%+v is not a run", e)
		}
		runs[e.RunID] = true
	}
	return runs, entries
}
