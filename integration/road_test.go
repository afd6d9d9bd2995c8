package integration

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// A road runs the lines of the guide, from one process to an ensemble.
type road struct {
	t             *testing.T
	guide         string
	embedded, ctl string    // programs
	replace       []string  // names in the guide and those here
	began         time.Time // when there was only the clone
}

// line returns a line of the guide as it is run here.
func (r *road) line(text string) []string {
	r.t.Helper()
	if !strings.Contains(r.guide, "\n    go run "+text+" ") && !strings.Contains(r.guide, "\n    go run "+text+"\n") {
		r.t.Fatalf("GUIDE.md lacks the line: go run %s", text)
	}
	replace := append([]string{"./sample/embedded", r.embedded, "./cmd/swctl", r.ctl}, r.replace...)
	return strings.Fields(strings.NewReplacer(replace...).Replace(text))
}

// start runs a line that goes on. ran has an element for each line that it prints, unless there are
// more than anybody has taken.
func (r *road) start(text string) (ran <-chan string, kill func()) {
	r.t.Helper()
	args := r.line(text)
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			select {
			case lines <- in.Text():
			default:
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	kill = func() {
		_ = cmd.Process.Kill()
		for range lines { // until its output ends
		}
		_ = cmd.Wait()
	}
	r.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return lines, kill
}

// share starts three processes, and returns when one of them has run the job.
func (r *road) share(text string) (kill func()) {
	r.t.Helper()
	first := make(chan struct{}, 3000)
	var kills []func()
	for range 3 {
		ran, kill := r.start(text)
		kills = append(kills, kill)
		go func() {
			for range ran {
				first <- struct{}{}
			}
		}()
	}
	<-first
	return func() {
		for _, kill := range kills {
			kill()
		}
	}
}

// list asks the server of a directory for the job. Meanwhile its run ends: one that is killed would
// wait for a session timeout to be repeated.
func (r *road) list(data string) {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), r.ctl, "list", "--zk", "file:"+data, "--server-type", "billing").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "report") {
		r.t.Errorf("swctl list: %v: %s", err, out)
	}
}

// TestRoad takes a job from one process with a file over three with swctl serve to three with an
// ensemble, by the guide's lines, where nothing changes but where they connect. All processes are
// killed with SIGKILL at each step. The job goes on, with its history, and swctl audit proves that
// no tick was claimed twice. It prints how long a new user waits.
func TestRoad(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../singleworker/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	ports := zkserver.StartEnsemble(t, 3) // empty, until there is something to export
	dir := t.TempDir()
	r := &road{t: t, guide: string(guide), embedded: filepath.Join(dir, "embedded"), ctl: buildSwctl(t), began: time.Now()}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", r.embedded, "../sample/embedded").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data := filepath.Join(dir, "data")
	r.replace = []string{
		"billing", data, "--to members", "--to " + filepath.Join(dir, "members"), "zk1:2181,zk2:2181,zk3:2181", ports.Addr(),
	}

	const one = "./sample/embedded -data billing"
	ran, kill := r.start(one)
	tick, err := time.Parse("ran "+time.RFC3339, <-ran)
	if err != nil {
		t.Fatal(err)
	}
	r.list(data)
	kill()
	killed := time.Now()
	ran, kill = r.start(one)
	if _, ok := <-ran; !ok {
		t.Fatal("one process has not come back")
	}
	t.Logf("from the kill of the one process to its next run: %v", time.Since(killed).Round(time.Millisecond))
	t.Logf("from the clone to a job that has survived it, with the build: %v", time.Since(r.began).Round(time.Millisecond))
	kill()

	addr, end := startServe(t, r.ctl, data, "127.0.0.1:0")
	r.line("./cmd/swctl serve --data billing") // which startServe has run, at another port
	r.replace = append(r.replace, "127.0.0.1:2181", addr)
	const several = "./sample/embedded -zk 127.0.0.1:2181"
	killAll := r.share(several)
	r.list(data)
	killAll()
	if err := end(syscall.SIGKILL); err == nil {
		t.Error("a killed server has ended well")
	}
	killed = time.Now()
	_, end = startServe(t, r.ctl, data, addr)
	killAll = r.share(several)
	t.Logf("from the kill of three processes and their server to the next run: %v", time.Since(killed).Round(time.Millisecond))
	killAll()
	audit, err := exec.CommandContext(t.Context(), r.ctl, "audit", "--txnlog", data, "--server-type", "billing").CombinedOutput()
	if err != nil || !strings.Contains(string(audit), "PASS") {
		t.Errorf("swctl audit: %v: %s", err, audit)
	}
	if err := end(syscall.SIGKILL); err == nil {
		t.Error("a killed server has ended well")
	}

	export := r.line("./cmd/swctl serve export --data billing --members zk1 --members zk2 --members zk3 --to members")
	if out, err := exec.CommandContext(t.Context(), export[0], export[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for k, host := range []string{"zk1", "zk2", "zk3"} {
		ports.Servers()[k].Replace(filepath.Join(dir, "members", host))
	}
	for _, s := range ports.Servers() {
		s.Begin()
	}
	ports.Await()
	killAll = r.share("./sample/embedded -zk zk1:2181,zk2:2181,zk3:2181")
	defer killAll()
	history, err := exec.CommandContext(t.Context(), r.ctl, "history", "report", "--zk", ports.Addr(), "--server-type", "billing").CombinedOutput()
	if first := tick.UTC().Format(time.DateTime); err != nil || !strings.Contains(string(history), first+" UTC  ok ") {
		t.Errorf("swctl history, want the run of %s: %v: %s", first, err, history)
	}
}
