package web

import (
	"context"
	"iter"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// Client is what the pages need of an *admin.Client.
type Client interface {
	List(ctx context.Context) ([]admin.JobStatus, error)
	Get(ctx context.Context, name string) (admin.JobStatus, error)
	History(ctx context.Context, name string) (admin.History, error)
	Histories(ctx context.Context, jobs []admin.JobStatus) ([][]admin.Entry, error)
	Why(ctx context.Context, name string, at time.Time) (admin.Explanation, error)
	Requests(ctx context.Context, name string) ([]admin.Request, error)
	Instances(ctx context.Context) ([]admin.Instance, error)
	Instance(ctx context.Context, sid string) (admin.InstanceDetails, error)
	Orders(ctx context.Context) ([]admin.Order, error)
	Watch(ctx context.Context, opts admin.WatchOptions) iter.Seq2[admin.Event, error]
}
