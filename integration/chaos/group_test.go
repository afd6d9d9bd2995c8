package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/wrongclock"
	"github.com/swjobs/singleworker/integration/zkserver"
)

const (
	groupName = "chaos"
	session   = 4 * time.Second
	// stopLimit is how long a process may take to stop cleanly: its grace, and the time to hand its
	// slots over, on a busy machine and without a server.
	stopLimit = time.Minute
)

// A span is a length of time, on the machine's monotonic clock. It has not ended if To is zero.
type span struct{ From, To time.Duration }

// A process is one start of an instance.
type process struct {
	ID      string // of the instance
	Member  int
	Start   int // counts the processes of its member, from 1
	Release int
	Ledger  string // file
	Life    span
	Killed  bool // rather than ended by itself
	Asked   bool // to stop, with SIGTERM
	AskedAt time.Duration
	AskedBy kind   // stop or deploy
	KillBy  kind   // what killed it
	Pauses  []span // SIGSTOP to SIGCONT

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended; read after ended is closed
}

// A member is one of the places in the group: a way to the servers, a clock, and one process after
// the other.
type member struct {
	t       *testing.T
	number  int
	program string
	dir     string
	proxies []*zkserver.Proxy // one per server
	clock   string            // file
	leaps   map[kind]time.Duration
	ids     int
	now     *process   // the last one
	all     []*process // in the order of their starts
}

func newMember(t *testing.T, number int, program, dir string, e *zkserver.Ensemble) *member {
	t.Helper()
	m := &member{
		t: t, number: number, program: program, dir: dir, clock: filepath.Join(dir, fmt.Sprint("clock", number)), leaps: make(map[kind]time.Duration),
	}
	for _, s := range e.Servers() {
		m.proxies = append(m.proxies, zkserver.NewProxy(t, s.Addr()))
	}
	wrongclock.Set(t, m.clock, 0)
	t.Cleanup(func() { m.kill(kill) })
	return m
}

// leap sets by how much a kind of fault has the member's clock ahead.
func (m *member) leap(by kind, ahead time.Duration) {
	m.leaps[by] = ahead
	wrongclock.Set(m.t, m.clock, m.leaps[clockLeap]+m.leaps[clocksLeap])
}

// start starts a process, whose predecessor must have ended.
func (m *member) start(release int, newID bool) {
	m.t.Helper()
	if newID || m.ids == 0 {
		m.ids++
	}
	p := &process{ID: fmt.Sprintf("i%d-%d", m.number+1, m.ids), Member: m.number, Start: len(m.all) + 1, Release: release, ended: make(chan struct{})}
	p.Ledger = filepath.Join(m.dir, fmt.Sprintf("ledger-%d-%03d", m.number+1, len(m.all)+1))
	var addrs []string
	for _, proxy := range m.proxies {
		addrs = append(addrs, proxy.Addr())
	}
	log, err := os.OpenFile(p.Ledger+".log", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	p.cmd = exec.Command(m.program, "-servers", strings.Join(addrs, ","), "-group", groupName, "-id", p.ID, //nolint:noctx // faults end it
		"-session", session.String(), "-ledger", p.Ledger, "-release", strconv.Itoa(release))
	p.cmd.Env = append(os.Environ(), wrongclock.Env+"="+m.clock)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test process that dies runs no cleanups
	p.Life.From = Mono()
	started := make(chan error)
	go func() {
		defer close(p.ended)
		defer log.Close()
		runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		m.t.Fatal(err)
	}
	m.now = p
	m.all = append(m.all, p)
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(sig syscall.Signal) {
	if p.running() {
		_ = p.cmd.Process.Signal(sig)
	}
}

// kill ends the process with SIGKILL. It counts as alive until it was waited for.
func (m *member) kill(by kind) {
	if !m.now.running() {
		return
	}
	m.now.signal(syscall.SIGKILL)
	<-m.now.ended
	m.now.Killed, m.now.KillBy = true, by
	m.ending()
}

// ending notes when the process ended, which it has.
func (m *member) ending() {
	p := m.now
	if p.Life.To == 0 {
		p.Life.To = Mono()
	}
	if n := len(p.Pauses); n > 0 && p.Pauses[n-1].To == 0 {
		p.Pauses[n-1].To = p.Life.To
	}
}

func (m *member) pause() {
	m.now.signal(syscall.SIGSTOP)
	m.now.Pauses = append(m.now.Pauses, span{From: Mono()})
}

func (m *member) resume() {
	if n := len(m.now.Pauses); n > 0 && m.now.Pauses[n-1].To == 0 {
		m.now.Pauses[n-1].To = Mono()
	}
	m.now.signal(syscall.SIGCONT)
}

// terminate asks the process to stop cleanly.
func (m *member) terminate(by kind) {
	if !m.now.running() {
		return
	}
	m.now.Asked, m.now.AskedAt, m.now.AskedBy = true, Mono(), by
	m.now.signal(syscall.SIGTERM)
}

// awaitEnd waits for a process that was asked to stop, and kills it if it takes too long, as those
// who deploy would do. It reports whether the process ended by itself, and how.
func (m *member) awaitEnd(limit time.Duration) (clean bool, err error) {
	for deadline := Mono() + limit; m.now.running(); <-time.After(10 * time.Millisecond) {
		if Mono() > deadline {
			m.kill(kill)
			return false, nil
		}
	}
	m.ending()
	return true, m.now.err
}

// each does something to the proxies of all servers.
func (m *member) each(do func(*zkserver.Proxy)) {
	for _, proxy := range m.proxies {
		do(proxy)
	}
}
