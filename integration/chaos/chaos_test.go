package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/wrongclock"
	"github.com/swjobs/singleworker/integration/zkserver"
)

var (
	serve    = flag.Bool("chaos.serve", false, "one swctl serve in the place of an ensemble of ZooKeepers")
	minutes  = flag.Float64("chaos.minutes", 1, "how long faults are injected")
	seedFlag = flag.Uint64("chaos.seed", 0, "draws the faults; 0 for a random one")
	pageDir  = flag.String("chaos.dir", os.TempDir(), "where the page of the run is written")
)

func TestMain(m *testing.M) { os.Exit(zkserver.Main(m.Run)) }

// TestChaos injects faults into a group of processes and its servers, and checks the records.
func TestChaos(t *testing.T) {
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64() >> 32 // short, to be typed
	}
	length := time.Duration(*minutes * float64(time.Minute))
	dir := t.TempDir()
	var e *zkserver.Ensemble
	if *serve {
		e = zkserver.StartServe(t)
	} else {
		e = zkserver.StartEnsemble(t, servers)
	}
	plan := drawPlan(seed, length, len(e.Servers()))
	sayf("chaos: seed %d, %v, %d faults:\n%s", seed, length, len(plan), describePlan(plan))

	program := wrongclock.Build(t, dir, "./instance")
	o := newOperator(t, e.Addr())
	var members []*member
	for k := range instances {
		m := newMember(t, k, program, dir, e)
		m.start(1, true)
		members = append(members, m)
	}
	s := &settler{t: t, operator: o, members: members}
	ready, err := s.await(settleLimit, func(ctx context.Context) error { return s.works(ctx, 0) })
	if err != nil {
		t.Fatalf("the group does not start: %v", err)
	}
	t.Logf("the group runs after %v", ready.Round(time.Millisecond))

	n := &nemesis{t: t, ensemble: e, members: members, operator: o, release: 1}
	n.carryOut(plan)
	n.revive()
	e.Await()
	notes := o.tidy()
	n.heal()
	s.connect(strings.Split(e.Addr(), ","))
	settled, wrong := s.settle(Mono())
	ev := &evidence{clock: newWallToMono(), Began: n.began, Ended: Mono(), Deeds: n.done, Servers: len(e.Servers())}
	for _, m := range members {
		ev.Processes = append(ev.Processes, m.all...)
	}
	if err := errors.Join(ev.readLedgers(), ev.readLogs(append(n.times, logDirs(e)))); err != nil {
		keep(t, filepath.Dir(dir))
		t.Fatal(err)
	}
	j := ev.check()
	j.auditAgrees(t.Context(), logDirs(e))
	for _, text := range wrong {
		j.violatedf("end", ev.Ended, "", "%s", text)
	}
	sayf("%vsettled %v after the last fault", j.figures(), settled.Round(100*time.Millisecond))
	if n.leftOut > 0 {
		sayf("%d faults of servers were left out: not all servers were back within a minute", n.leftOut)
	}
	for _, v := range j.found {
		t.Errorf("violation at %.2f s: %v", (v.At - n.began).Seconds(), v)
	}
	page, err := j.drawPage(seed, length, notes)
	if err == nil {
		var path string
		path, err = writePage(page, *pageDir, seed)
		sayf("page: %s", path)
	}
	if err != nil {
		t.Error(err)
	}
	if t.Failed() {
		keep(t, filepath.Dir(dir))
		on := ""
		if *serve {
			on = "ZK=serve "
		}
		sayf("FAIL: %d violations. The same faults again: make chaos %sSEED=%d MINUTES=%g", len(j.found), on, seed, length.Minutes())
		return
	}
	sayf("PASS: seed %d, %d faults, 0 violations; ZooKeeper lost transactions %d times by itself", seed, len(n.done), len(j.Losses))
}

// sayf prints a line of the report.
func sayf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// keep copies the evidence of a failed run to where it stays.
func keep(t *testing.T, dir string) {
	t.Helper()
	to, err := os.MkdirTemp(*pageDir, "chaos-evidence-") //nolint:usetesting // it is to stay
	if err == nil {
		err = errors.Join(dropSockets(dir), os.CopyFS(filepath.Join(to, "run"), os.DirFS(dir)))
	}
	t.Logf("evidence: %s (%v)", to, err)
}

// dropSockets removes the sockets below a directory, which cannot be copied.
func dropSockets(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSocket != 0 {
			return root.Remove(path)
		}
		return err
	})
}
