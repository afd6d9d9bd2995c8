package doctor

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/offset"
)

// quorum judges the servers together. One of them serves if a session was begun, whatever they say.
func (x *examiner) quorum(serves bool) {
	all := &admin.ServersError{Servers: x.Servers}
	var serving, others []string
	for _, s := range x.Servers {
		if s.State == admin.ServerServing {
			serving = append(serving, s.Address)
		} else {
			others = append(others, s.Address)
		}
	}
	leads := ""
	if leader := x.leader(); leader != "" {
		leads = ", and " + leader + " leads"
	}
	switch {
	case x.Stale:
		x.add("quorum", reason.Broken, others, all.Remedy(), "ZooKeeper has no quorum, and all else is as it was when that was lost")
	case !serves:
		x.add("quorum", reason.Broken, others, all.Remedy(), "%s", all.Head())
	case len(serving) == 0:
		x.add("quorum", reason.Notice, others, "allow srvr in the servers' 4lw.commands.whitelist", "ZooKeeper serves requests, and no server says how it stands")
	case all.Any(admin.ServerAway) || all.Any(admin.ServerWaiting):
		x.add("quorum", reason.Warning, others, "start the others before a further one goes: more than half of the ensemble must be up",
			"%d of %d servers do not serve requests%s", len(others), len(x.Servers), leads)
	default:
		x.add("quorum", reason.Fine, serving, "", "%d of %d servers serve requests%s", len(serving), len(x.Servers), leads)
	}
	x.servers()
}

// leader is the server by whose clock ZooKeeper gives times.
func (x *examiner) leader() string {
	for _, s := range x.Servers {
		if s.Mode == "leader" || s.Mode == "standalone" {
			return s.Address
		}
	}
	return ""
}

// servers judges each one.
func (x *examiner) servers() {
	for _, s := range x.Servers {
		of, severity := []string{s.Address}, reason.Fine
		switch {
		case s.State != admin.ServerServing:
			x.add("server", severityOf(s.State), of, "", "%v", s)
			continue
		case s.Latency >= slowest || s.Outstanding >= outstanding:
			severity = reason.Warning
		case s.Latency >= slow:
			severity = reason.Notice
		}
		x.add("server", severity, of, "look at that machine's load, and at the disk of its dataLogDir",
			"%v: %s, latency %v on average and %v at most, %s waiting", s, counted(s.Connections, "connection"), s.Latency, s.MaxLatency, counted(s.Outstanding, "request"))
	}
}

func severityOf(state admin.ServerState) reason.Severity {
	if state == admin.ServerMute {
		return reason.Notice
	}
	return reason.Warning
}

// serversClock finds out whether it is ZooKeeper's clock that is wrong: no instance's agrees with
// it, and most agree with each other. The instances' are then compared with each other.
func (x *examiner) serversClock() {
	peers := make(map[string]offset.Peer)
	for _, i := range x.Instances {
		if i.ClockOffset != nil {
			peers[i.ID] = offset.Peer{Off: *i.ClockOffset}
		}
	}
	if len(peers) == 0 {
		return
	}
	off, wrong := offset.OfGroup(clockLimit, peers)
	if !wrong {
		x.add("zookeeper_clock", reason.Fine, nil, "", "an instance's clock agrees with ZooKeeper's, or no two others agree against it")
		return
	}
	which := "behind"
	if off < 0 {
		which = "ahead of"
	}
	leader := x.leader()
	if leader != "" {
		leader = " (" + leader + ")"
	}
	x.add("zookeeper_clock", reason.Warning, nil, "set the clock of the server that leads"+leader,
		"ZooKeeper's clock is %s %s those of the instances, which agree with each other: the instances go by theirs", plain.Span(off.Abs()), which)
	x.Instances = slices.Clone(x.Instances)
	for k := range x.Instances {
		if i := &x.Instances[k]; i.ClockOffset != nil {
			rest := *i.ClockOffset - off
			i.ClockOffset = &rest
		}
	}
}
