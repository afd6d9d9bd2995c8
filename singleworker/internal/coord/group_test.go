package coord

import (
	"context"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// group is coordinators on a server, in virtual time.
type group struct {
	*roomtest.Group
	// configure, if set, changes the members' settings.
	configure func(*Config)
}

// inGroup runs a test in a bubble; every goroutine must have ended after it.
func inGroup(t *testing.T, test func(g *group)) {
	t.Helper()
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) { test(&group{Group: g}) })
}

// instance is a coordinator with the calls that it made to its runner.
type instance struct {
	*Coordinator
	*roomtest.Runner
	g      *group
	client *zkdev.Client
	log    *roomtest.Log
	stop   context.CancelFunc
	ended  chan error
}

// join starts a coordinator, which can run every job but one; it ends with the test.
func (g *group) join(sid string) *instance {
	g.T.Helper()
	m := &instance{
		Runner: roomtest.NewRunner(g.Group), g: g, client: g.Server.Client(sid), log: &roomtest.Log{},
		ended: make(chan error, 1),
	}
	clock := leases.NewClock()
	cfg := Config{
		Conn: g.Closed(m.client), ServerType: "group", SyncPeriod: roomtest.SyncPeriod, HistorySize: zkrec.MinHistory,
		Member:   member.Config{ID: sid, Instance: zkrec.Instance{Incarnation: sid + "-1"}},
		Handlers: roomtest.Handlers{Without: []string{roomtest.Foreign}}, Runner: m.Runner, Leases: leases.NewTable(clock), Clock: clock, Logger: m.log.Logger(),
	}
	if g.configure != nil {
		g.configure(&cfg)
	}
	g.T.Cleanup(func() {
		if text := m.log.String(); strings.Contains(text, agenda.Missed) {
			g.T.Error(text)
		}
	})
	m.Coordinator = New(cfg)
	m.CommitTo(m.Coordinator)
	m.stop = g.Go(m.client, func(ctx context.Context) { m.ended <- m.Run(ctx) })
	return m
}
