package chaos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// A nemesis carries out a plan.
type nemesis struct {
	t        *testing.T
	ensemble *zkserver.Ensemble
	members  []*member
	operator *operator
	release  int  // that was deployed last
	leftOut  int  // faults of servers for which these took too long to recover from the last one
	down     bool // a fault of servers is under way

	backups []string   // of the servers' data, by server; empty if there is no backup yet
	times   [][]string // the servers' logs, by server, each time that their data was replaced

	began time.Duration
	ends  time.Duration // when the last fault begins
	done  []*deed
	agenda
}

// A deed is a fault that was carried out.
type deed struct {
	fault

	Span span
	On   string // what it was done to: an instance's id, a server's number, a job
	Note string // what came of it, if that is not plain
}

// An agenda is a list of actions, in the order of their times.
type agenda []task

type task struct {
	at time.Duration
	do func()
}

// later adds a task.
func (a *agenda) later(at time.Duration, do func()) {
	k := len(*a)
	for k > 0 && (*a)[k-1].at > at {
		k--
	}
	*a = slices.Insert(*a, k, task{at, do})
}

// carryOut does all of a plan, and returns when the last fault has ended.
func (n *nemesis) carryOut(plan []fault) {
	n.began = Mono()
	for _, f := range plan {
		n.ends = f.At
		if f.Kind == crowdKill {
			f.At = n.crowdAfter(f.At) + f.Amount
		}
		n.later(f.At, func() { n.begin(f) })
	}
	n.later(0, n.backUp)
	for len(n.agenda) > 0 {
		next := n.agenda[0]
		n.agenda = n.agenda[1:]
		<-time.After(n.began + next.at - Mono())
		next.do()
	}
}

// begin begins a fault, and puts its end on the agenda. One of servers waits until all of them
// serve, and until there is a backup if it needs one, and is left out if that takes too long, as on
// a busy machine: ZooKeeper 3.8.0 loses transactions if its leader dies, or hangs, while a follower
// catches up (ZOOKEEPER-4643).
func (n *nemesis) begin(f fault) {
	const patience = time.Minute
	if laneOf(f.Kind) == onServers && (!n.ensemble.Whole(n.t.Context()) || f.Kind == restored && n.backups == nil) {
		n.revive()
		if Mono()-n.began < f.At+patience {
			n.later(Mono()-n.began+time.Second, func() { n.begin(f) })
		} else {
			n.leftOut++
		}
		return
	}
	d := &deed{fault: f, Span: span{From: Mono()}}
	n.done = append(n.done, d)
	var end func()
	switch laneOf(f.Kind) {
	case onInstance:
		end = n.onInstance(d, n.members[f.Target])
	case onClock:
		end = n.onClock(d, n.members[f.Target])
	case onClocks:
		end = n.onClock(d, n.members...)
	case onServers:
		n.down = true
		end = n.onServers(d)
	case onGroup:
		n.deploy(d)
	case onJobs:
		end = n.operator.onJobs(d)
	}
	if laneOf(f.Kind) == onGroup {
		return
	}
	n.later(Mono()-n.began+f.For, func() {
		if end != nil {
			end()
		}
		n.down = n.down && laneOf(f.Kind) != onServers
		d.Span.To = Mono()
	})
}

// onInstance begins a fault of one instance, and returns a function that ends it.
func (n *nemesis) onInstance(d *deed, m *member) (end func()) {
	d.On = m.now.ID
	heal := func() { m.each((*zkserver.Proxy).Heal) }
	switch d.Kind {
	case kill, crowdKill:
		m.kill(d.Kind)
		return func() { n.restart(m, d.NewID) }
	case stop:
		m.terminate(stop)
		return func() { n.stopped(d, m); n.restart(m, d.NewID) }
	case pause:
		m.pause()
		return m.resume
	case cut:
		m.each((*zkserver.Proxy).Cut)
		return heal
	case cutRequests:
		m.each((*zkserver.Proxy).StallRequests)
		return heal
	case cutReplies:
		m.each((*zkserver.Proxy).StallReplies)
		return heal
	case cutOne:
		m.proxies[d.Number%len(m.proxies)].Cut()
		return heal
	case delay:
		m.each(func(p *zkserver.Proxy) { p.Delay(d.Amount) })
		return heal
	case drain:
		return n.operator.drain(d)
	default:
		panic("unknown fault " + d.Kind)
	}
}

// restart starts a member's next process, if the last one has ended.
func (n *nemesis) restart(m *member, newID bool) {
	if !m.now.running() {
		m.ending()
		m.start(n.release, newID)
	}
}

// stopped waits for a clean stop.
func (n *nemesis) stopped(d *deed, m *member) {
	clean, err := m.awaitEnd(0)
	switch {
	case !clean:
		d.Note += m.now.ID + " was killed: it had not stopped "
	case err != nil:
		d.Note += fmt.Sprintf("%s stopped with %v ", m.now.ID, err)
	}
}

// crowdAfter is when a crowd is due next.
func (n *nemesis) crowdAfter(at time.Duration) time.Duration {
	clock := newWallToMono()
	due := clock.time(n.began + at).Truncate(crowdPeriod).Add(crowdPeriod)
	return clock.mono(due) - n.began
}

// onClock makes clocks leap.
func (n *nemesis) onClock(d *deed, members ...*member) (end func()) {
	d.Note = fmt.Sprintf("by %v", d.Amount)
	for _, m := range members {
		d.On += m.now.ID + " "
		m.leap(d.Kind, d.Amount)
	}
	return func() {
		for _, m := range members {
			m.leap(d.Kind, 0)
		}
	}
}

// onServers begins a fault of servers.
func (n *nemesis) onServers(d *deed) (end func()) {
	all := n.ensemble.Servers()
	leader := max(0, n.ensemble.Leader(n.t.Context()))
	follower := func(k int) int { return (leader + 1 + k) % len(all) }
	var victims []int
	switch d.Kind {
	case leaderKill:
		victims = []int{leader}
	case oneServer:
		victims = []int{follower(d.Target % 2)}
	case noQuorum:
		victims = []int{leader, follower(d.Target % 2)}
		if d.NewID { // or both followers, and the leader finds out
			victims = []int{follower(0), follower(1)}
		}
	case ensemble:
		for k := range all {
			victims = append(victims, k)
		}
	case restored, emptied:
		return n.replace(d)
	case leaderPause:
		d.On = serverName(leader)
		all[leader].Suspend()
		return all[leader].Resume
	default:
		panic("unknown fault " + d.Kind)
	}
	for _, k := range victims {
		all[k].Kill()
		d.On += serverName(k) + " "
	}
	return func() {
		for _, k := range victims {
			all[k].Begin()
		}
	}
}

// backUp copies the data of all servers, as soon as all serve.
func (n *nemesis) backUp() {
	switch at := Mono() - n.began; {
	case at > n.ends:
	case n.down || !n.ensemble.Whole(n.t.Context()):
		n.later(at+time.Second, n.backUp)
	default:
		for _, s := range n.ensemble.Servers() {
			n.backups = append(n.backups, s.Backup())
		}
	}
}

// replace has the servers lose all of their data, or all since the backup.
func (n *nemesis) replace(d *deed) (end func()) {
	all := n.ensemble.Servers()
	for k, s := range all {
		s.Kill()
		d.On += serverName(k) + " "
	}
	d.Span.From = Mono()
	var logs []string
	for k, s := range all {
		backup := ""
		if d.Kind == restored {
			backup = n.backups[k]
		}
		logs = append(logs, s.Replace(backup))
	}
	n.backups, n.times = nil, append(n.times, logs)
	return func() {
		for _, s := range all {
			s.Begin()
		}
		n.operator.submitAll(d)
		n.later(Mono()-n.began+d.Amount, n.backUp)
	}
}

// revive starts servers again that have ended by themselves, as a supervisor does.
func (n *nemesis) revive() {
	for k, s := range n.ensemble.Servers() {
		if !n.down && !s.Running() {
			n.t.Logf("%s has ended by itself and is started again", serverName(k))
			s.Begin()
		}
	}
}

func serverName(k int) string { return fmt.Sprintf("zk%d", k+1) }

// deploy replaces each instance by one of the other release.
func (n *nemesis) deploy(d *deed) {
	n.release = 3 - n.release
	d.On = fmt.Sprintf("release %d", n.release)
	release := n.release
	at := Mono() - n.began
	for _, m := range n.members {
		n.later(at, func() { m.terminate(deploy) })
		at += deployStep
		n.later(at-50*time.Millisecond, func() {
			if m.now.Release == release {
				return // another fault has replaced it meanwhile
			}
			n.stopped(d, m)
			n.restart(m, true)
		})
	}
	n.later(at, func() { d.Span.To = Mono() })
}

// heal ends everything that is left, and gives every member a process.
func (n *nemesis) heal() {
	for _, m := range n.members {
		m.each((*zkserver.Proxy).Heal)
		m.resume()
		n.restart(m, false)
	}
}
