package singleworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
)

// Cancel deletes a job with all its records, as admin.Client.Cancel does, on the
// Manager's own session. A job that this instance declares is gone, too, until an
// instance that declares it starts. A handler may call it; if it cancels its own job,
// its context ends with ErrJobCanceled.
//
// Cancel, Trigger and Jobs wait for ZooKeeper until ctx is done. They return
// ErrNotRunning before Run was called and after it has ended, and otherwise the
// errors of their counterparts in package admin.
func (m *Manager) Cancel(ctx context.Context, job string) (was admin.JobStatus, err error) {
	err = m.administer(ctx, func(ctx context.Context, c *admin.Client) error {
		was, err = c.Cancel(ctx, job)
		return err
	})
	return was, err
}

// Trigger requests a manual run of a job, or of one shard, as
// admin.Client.Trigger does, on the Manager's own session; see Cancel. It returns
// when ZooKeeper has the request. The owner of the job runs it, which may be
// another instance.
func (m *Manager) Trigger(ctx context.Context, job string, opts admin.TriggerOptions) (result admin.TriggerResult, err error) {
	err = m.administer(ctx, func(ctx context.Context, c *admin.Client) error {
		result, err = c.Trigger(ctx, job, opts)
		return err
	})
	return result, err
}

// Jobs returns the status of every job of the group, sorted by name, as
// admin.Client.List does, on the Manager's own session; see Cancel. It reads all records
// of all jobs, so it is for people and not for every run.
func (m *Manager) Jobs(ctx context.Context) (jobs []admin.JobStatus, err error) {
	err = m.administer(ctx, func(ctx context.Context, c *admin.Client) error {
		jobs, err = c.List(ctx)
		return err
	})
	return jobs, err
}

// administer calls do with a client on the Manager's session.
func (m *Manager) administer(ctx context.Context, do func(ctx context.Context, c *admin.Client) error) error {
	m.mu.Lock()
	w := m.bridge
	m.mu.Unlock()
	if w == nil {
		return ErrNotRunning
	}
	return w.whileRunning(ctx, func(ctx context.Context) error {
		conn, err := w.coord.Conn(ctx)
		if err != nil {
			return err
		}
		from := fmt.Sprintf("%s (%s)", m.cfg.InstanceID, cmp.Or(m.cfg.Version, Version()))
		return do(ctx, admin.On(conn, m.cfg.ServerType, from))
	})
}

// declare writes a job that the program declares while it runs.
func (w *bridge) declare(ctx context.Context, d member.Declaration) error {
	err := w.whileRunning(ctx, func(ctx context.Context) error { return w.coord.Declare(ctx, d) })
	if err != nil {
		return fmt.Errorf("singleworker: declare job %q: %w", d.Job, err)
	}
	return nil
}

// whileRunning calls do with a context that also ends with the coordinator.
func (w *bridge) whileRunning(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.life, func() { cancel(ErrNotRunning) })()
	err := do(ctx)
	if errors.Is(err, session.ErrEnded) {
		return ErrNotRunning
	}
	return err
}
