package web

import (
	"context"
	"iter"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Client has the methods of *admin.Client that the pages need.
type Client interface {
	Reader
	Changer
}

// Reader reads for the pages.
type Reader interface { //nolint:interfacebloat // it stands for half of a type
	Group(ctx context.Context) (admin.Group, error)
	Get(ctx context.Context, name string) (admin.JobStatus, error)
	Job(ctx context.Context, name string) (admin.JobDetails, error)
	Histories(ctx context.Context, jobs []admin.JobStatus) ([][]history.Entry, error)
	Examine(ctx context.Context, g admin.Group) (admin.Examination, error)
	Instance(ctx context.Context, sid string) (admin.InstanceDetails, error)
	Log(ctx context.Context, opts admin.LogOptions) ([]admin.LogEntry, error)
	Gone(ctx context.Context) ([]admin.GoneInstance, error)
	Calendars(ctx context.Context) ([]admin.Calendar, error)
	Limits(ctx context.Context) ([]admin.Limit, error)
	Watch(ctx context.Context, opts admin.WatchOptions) iter.Seq2[admin.Event, error]
	Clock() (now time.Time, ahead time.Duration, own bool)
}

// Changer has the methods that actions need. Without Options.AllowActions it is not called.
type Changer interface {
	Submit(ctx context.Context, j job.Job, opts admin.SubmitOptions) (admin.Change, error)
	Trigger(ctx context.Context, name string, opts admin.TriggerOptions) (admin.TriggerResult, error)
	StopRun(ctx context.Context, name string, opts admin.StopOptions) ([]history.Entry, error)
	Pause(ctx context.Context, name string, opts admin.PauseOptions) (admin.PauseResult, error)
	Resume(ctx context.Context, name string, opts admin.ResumeOptions) (admin.PauseResult, error)
	Freeze(ctx context.Context, opts admin.FreezeOptions) (admin.FreezeResult, error)
	Unfreeze(ctx context.Context, opts admin.ResumeOptions) (admin.FreezeResult, error)
	Cancel(ctx context.Context, name string) (admin.JobStatus, error)
	Drain(ctx context.Context, sid string, opts admin.OrderOptions) (admin.OrderResult, error)
	EnableAt(ctx context.Context, t admin.Target) (admin.OrderResult, error)
}
