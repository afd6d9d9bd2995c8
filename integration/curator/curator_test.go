package curator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/integration/zkserver"
)

const (
	session = 3 * time.Second

	// The documented limits, on an idle machine.
	takeover = session + 500*time.Millisecond
	handover = 50 * time.Millisecond
)

// election is contenders of both kinds on one path.
type election struct {
	*hearing

	t         *testing.T
	path      string
	addr      string
	lock      string
	classPath string
	raw       *zk.Conn

	number int
	queue  []*contender // in order of arrival
	tokens []int64      // of those that have led
}

func newElection(t *testing.T, path string) *election {
	t.Helper()
	e := &election{t: t, path: path, classPath: compile(t), addr: zkserver.Start(t).Addr(), lock: filepath.Join(t.TempDir(), "lock")}
	if err := os.WriteFile(e.lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	raw, events, err := zk.Connect([]string{e.addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range events {
			continue
		}
	}()
	t.Cleanup(raw.Close)
	e.raw = raw
	e.hearing = newHearing(t)
	return e
}

// join starts a contender of a kind and waits until it is in the queue.
func (e *election) join(kind string) {
	e.t.Helper()
	e.number++
	id := fmt.Sprintf("%s%d", kind, e.number)
	var cmd *exec.Cmd
	if kind == "java" {
		//nolint:noctx // it lives until the test's end
		cmd = exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", e.classPath,
			"Contender", e.addr, e.path, id, e.lock, strconv.FormatInt(session.Milliseconds(), 10))
	} else {
		program, err := os.Executable()
		if err != nil {
			e.t.Fatal(err)
		}
		cmd = exec.Command(program) //nolint:noctx // as above
		cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{kind, e.addr, e.path, id, e.lock, session.String()}, " "))
	}
	c := launch(e.t, id, cmd, e.lines)
	deadline := time.Now().Add(30 * time.Second)
	for !slices.Contains(e.places(), id) {
		if time.Now().After(deadline) {
			e.t.Fatalf("%s has no place after 30s; the queue: %v", id, e.places())
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.queue = append(e.queue, c)
}

// places returns the ids below the path, in the order of the nodes' numbers.
func (e *election) places() []string {
	names, _, err := e.raw.Children(e.path)
	if err != nil {
		return nil
	}
	const digits = 10
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-digits:], b[len(b)-digits:]) })
	var ids []string
	for _, name := range names {
		if data, _, err := e.raw.Get(e.path + "/" + name); err == nil {
			ids = append(ids, string(data))
		}
	}
	return ids
}

// next expects the first of the queue to lead and returns how long that took.
func (e *election) next(since time.Time) time.Duration {
	e.t.Helper()
	heir := e.queue[0]
	got := e.await(e.t, "gained", "", since)
	if got.who != heir.id {
		e.t.Fatalf("%s leads, want %s, which came first", got.who, heir.id)
	}
	names, _, err := e.raw.Children(e.path)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, name := range names {
		data, stat, err := e.raw.Get(e.path + "/" + name)
		if err == nil && string(data) == heir.id {
			e.tokens = append(e.tokens, stat.Czxid)
		}
	}
	token := e.tokens[len(e.tokens)-1]
	if !slices.IsSorted(e.tokens) || len(slices.Compact(slices.Clone(e.tokens))) != len(e.tokens) {
		e.t.Errorf("tokens %v, want them to grow", e.tokens)
	}
	if got.more != "" && got.more != strconv.FormatInt(token, 10) {
		e.t.Errorf("%s leads with token %s; its node's czxid is %d", heir.id, got.more, token)
	}
	return got.at.Sub(since)
}

// leader removes the first from the queue.
func (e *election) leader() *contender {
	first := e.queue[0]
	e.queue = e.queue[1:]
	return first
}

// verdict fails the test if there were ever two leaders.
func (e *election) verdict() {
	e.t.Helper()
	leads, terms := "", 0
	all := e.all()
	slices.SortStableFunc(all, func(a, b said) int { return a.at.Compare(b.at) })
	for _, s := range all {
		switch s.what {
		case "violation":
			e.t.Errorf("%s: %s", s.who, s.more)
		case "gained":
			terms++
			if leads != "" {
				e.t.Errorf("%s gained the leadership while %s had it", s.who, leads)
			}
			leads = s.who
		case "lost", "killed", "frozen":
			if leads == s.who {
				leads = ""
			}
		}
	}
	e.t.Logf("%d terms", terms)
}

// TestBesideCurator runs contenders in Go and Java on one path, kills and stops leaders of both
// kinds in turn, and suspends a Go process with SIGSTOP. There is never more than one leader, and
// the next in the queue leads in time.
func TestBesideCurator(t *testing.T) { //nolint:paralleltest // it measures
	e := newElection(t, "/apps/leader")
	began := time.Now()
	for _, kind := range []string{"java", "go", "java", "go"} {
		e.join(kind)
	}
	e.next(began)
	e.compareViews()
	// Only the server ends a dead session.
	e.rounds("kill -9", takeover, 2*session, func(c *contender) {
		c.signal(syscall.SIGKILL)
		<-c.ended
		e.lines <- said{c.id, "killed", "", time.Now()}
	})
	// Even on a busy machine, less than half a session timeout means a hand-over rather than a
	// takeover.
	e.rounds("clean stop", handover, session/2, func(c *contender) { c.tell("stop") })
	e.freeze()
	e.verdict()
}

// TestManagerBesideCurator runs Managers in latch mode beside contenders in Java, in the queue of a
// Java scheduler at /lead: a Manager owns its job when it leads, and not while a Java contender
// does.
func TestManagerBesideCurator(t *testing.T) { //nolint:paralleltest // it measures
	e := newElection(t, "/lead")
	began := time.Now()
	for _, kind := range []string{"java", "manager", "java", "manager"} {
		e.join(kind)
	}
	e.next(began)
	e.rounds("kill -9", takeover, 2*session, func(c *contender) {
		c.signal(syscall.SIGKILL)
		<-c.ended
		e.lines <- said{c.id, "killed", "", time.Now()}
	})
	e.rounds("clean stop", handover, session/2, func(c *contender) { c.tell("stop") })
	e.verdict()
}

// compareViews compares the participants as seen by both kinds.
func (e *election) compareViews() {
	e.t.Helper()
	want := strings.Join(e.places(), ",")
	for _, c := range e.queue[:2] {
		at := time.Now().Add(-time.Millisecond)
		c.tell("participants")
		if got := e.await(e.t, "participants", c.id, at); got.more != want {
			e.t.Errorf("%s sees the participants %s, want %s", c.id, got.more, want)
		}
	}
}

// rounds ends leaders of both kinds in turn, and prints how long each hand-over takes next to the
// limit for an idle machine. None may take longer than most, which distinguishes hand-overs from
// takeovers even on a busy machine.
func (e *election) rounds(what string, promised, most time.Duration, end func(*contender)) {
	e.t.Helper()
	var times []time.Duration
	for range 4 {
		old := e.leader()
		at := time.Now()
		end(old)
		took := e.next(at)
		e.t.Logf("FIGURE %s of %s to %s leads: %v (limit %v)", what, old.id, e.queue[0].id, took.Round(100*time.Microsecond), promised)
		times = append(times, took)
		e.join(strings.TrimRight(old.id, "0123456789"))
	}
	if slices.Max(times) > most {
		e.t.Errorf("%s: the next leads after %v, want never more than %v", what, times, most)
	}
}

// freeze suspends the process of a Go leader until another leads. When it resumes, the first thing
// that it notices is that it does not lead.
func (e *election) freeze() {
	e.t.Helper()
	for strings.HasPrefix(e.queue[0].id, "java") {
		old := e.leader()
		at := time.Now()
		old.tell("stop")
		e.next(at)
	}
	frozen := e.leader()
	frozen.tell("freeze")
	e.await(e.t, "frozen", frozen.id, time.Time{})
	at := time.Now()
	frozen.signal(syscall.SIGSTOP)
	took := e.next(at)
	e.t.Logf("FIGURE SIGSTOP of %s to %s leads: %v (limit %v)", frozen.id, e.queue[0].id, took.Round(time.Millisecond), takeover)
	thawed := time.Now()
	frozen.signal(syscall.SIGCONT)
	if woken := e.await(e.t, "woken", frozen.id, thawed); woken.more != "false" {
		e.t.Errorf("%s has resumed and claims to lead: %s", frozen.id, woken.more)
	}
	e.queue = append(e.queue, frozen) // it queues again, at the end
	deadline := time.Now().Add(10 * time.Second)
	for {
		places := e.places()
		if len(places) > 0 && places[len(places)-1] == frozen.id {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("%s is not the last of the queue %v", frozen.id, places)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
