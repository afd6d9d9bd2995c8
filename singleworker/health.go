package singleworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Health is an instance's account of itself. Times are by its own clock.
type Health struct {
	// State is the instance's: admin.InstanceActive and the others, as in its record, or
	// InstanceNotStarted, InstanceJoining or InstanceEnded.
	State string
	// Session is the state of the session with ZooKeeper, and Since when it began; zero before
	// the first session. When Run has ended, they are as they were last.
	Session SessionState
	Since   time.Time
	// SessionTimeout is the last one that the server granted, zero before the first session.
	SessionTimeout time.Duration
	// JobsRead means that the instance has read every job that it may read since Run began.
	JobsRead bool
	// Owned is the number of slots owned, MaxSlots and Weight the limits of Config.
	Owned, MaxSlots, Weight int
	// Leads means that the instance leads its group, in latch mode.
	Leads bool
	// LastTurn is when the coordinator, which does everything but the runs, was last seen to
	// work. It is at most some 15 s ago, or the coordinator hangs. Zero before Run.
	LastTurn time.Time
	// LastSync is when the instance last compared its view with ZooKeeper, LastClaim when it
	// last claimed a tick. Zero if it did not.
	LastSync, LastClaim time.Time
	// At is when this was true.
	At time.Time
}

// Further values of Health.State.
const (
	InstanceNotStarted = "not_started" // Run was not called
	InstanceJoining    = "joining"     // not part of the group, or no longer: see Health.Session
	InstanceEnded      = "ended"       // Run has ended, or is about to
)

// stalled is how long after its last turn the coordinator counts as hung.
const stalled = time.Minute

// Health returns the instance's account of itself, at once, in any state.
func (m *Manager) Health() Health {
	h := Health{State: InstanceNotStarted, Session: SessionConnecting, MaxSlots: m.cfg.MaxSlots, Weight: m.cfg.Weight, At: time.Now()}
	m.mu.Lock()
	w, ended := m.bridge, m.ended()
	m.mu.Unlock()
	if w == nil {
		return h
	}
	known := w.coord.Health()
	h.At = w.clock.Wall()
	at := func(mono time.Duration) time.Time {
		if mono == coord.Never {
			return time.Time{}
		}
		return h.At.Add(mono - known.Now)
	}
	h.Session, h.Since, h.SessionTimeout = SessionState(known.Session), at(known.Since), known.Timeout
	h.JobsRead, h.Owned, h.Leads = known.Read, known.Owned, known.Leads
	h.LastTurn, h.LastSync, h.LastClaim = h.At.Add(known.Turned-known.Now), at(known.Synced), at(known.Claimed)
	switch {
	case ended:
		h.State = InstanceEnded
	case known.Joined:
		h.State = known.State
	default:
		h.State = InstanceJoining
	}
	return h
}

// Live returns nil, or why the process should be restarted: the coordinator hangs for more than a
// minute, or Run has ended. An instance that has lost ZooKeeper is alive; a restart does not
// help it.
func (h Health) Live() error {
	idle := h.At.Sub(h.LastTurn)
	switch {
	case h.State == InstanceEnded:
		return errors.New("Run has ended")
	case h.State != InstanceNotStarted && idle > stalled:
		return fmt.Errorf("the coordinator hangs: it has not worked for %v", idle.Round(time.Second))
	}
	return nil
}

// Ready returns nil, or why the instance cannot take jobs now: it is not connected, not part of its
// group yet, has not read the jobs, or is warming (Config.StartupDelay), draining, drained,
// disabled, stopping, or not alive. An instance that stands by in latch mode is ready: it can lead.
func (h Health) Ready() error {
	if err := h.Live(); err != nil {
		return err
	}
	since := ""
	if !h.Since.IsZero() {
		since = fmt.Sprintf(" for %v", h.At.Sub(h.Since).Round(time.Second))
	}
	switch {
	case h.State == InstanceNotStarted:
		return errors.New("Run was not called")
	case h.Session != SessionConnected:
		return fmt.Errorf("not connected to ZooKeeper: the session is %s%s", h.Session, since)
	case h.State == InstanceJoining:
		return errors.New("joining the group")
	case !h.JobsRead:
		return errors.New("reading the jobs")
	case h.State != zkrec.InstanceActive && h.State != zkrec.InstanceStandby:
		return fmt.Errorf("the instance is %s", h.State)
	}
	return nil
}

// Ready waits until the instance is part of its group and has read the jobs, and returns nil. It
// may be called before Run, and waits for that, too. If ctx is done first, it returns an error with
// the cause of ctx and the reason; if Run has ended, ErrNotRunning. An operator's order to own
// nothing does not keep it waiting; Health().Ready() looks at that, too.
func (m *Manager) Ready(ctx context.Context) error {
	err := m.awaitReady(ctx)
	if err == nil || errors.Is(err, ErrNotRunning) {
		return err
	}
	if why := m.Health().Ready(); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return fmt.Errorf("singleworker: instance %s is not ready: %w", m.cfg.InstanceID, err)
}

func (m *Manager) awaitReady(ctx context.Context) error {
	select {
	case <-m.begun:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.mu.Lock()
	w := m.bridge
	m.mu.Unlock()
	return running(w.coord.Ready(ctx))
}
