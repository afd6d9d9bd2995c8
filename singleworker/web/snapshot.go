package web

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// snapshot is the group as it was read at once, for all viewers.
type snapshot struct {
	at        time.Time
	clock     string            // what is wrong with that of this machine, or ""
	jobs      []admin.JobStatus // sorted by name
	instances []admin.Instance  // sorted by ID
	orders    []admin.Order     // for instances and hosts that do not run

	jobList func() ([]byte, error) // the JSON document, encoded once
}

// snapshot is the group as of at most a period ago.
func (h *handler) snapshot(ctx context.Context) (*snapshot, error) {
	return shared(ctx, h.readings, "group", func(ctx context.Context) (*snapshot, error) {
		begun := time.Now()
		s := new(snapshot)
		var err error
		if s.jobs, err = h.client.List(ctx); err != nil {
			return nil, err
		}
		if s.instances, err = h.client.Instances(ctx); err != nil {
			return nil, err
		}
		s.orders, err = h.client.Orders(ctx)
		if err != nil && !errors.Is(err, admin.ErrDenied) { // without that right, they are not shown
			return nil, err
		}
		now, ahead, own := h.client.Clock()
		s.at, s.clock = now.Add(-time.Since(begun)), words.Clock("the clock of the machine that serves this page", ahead, own)
		s.orders = slices.DeleteFunc(s.orders, func(o admin.Order) bool {
			return slices.ContainsFunc(s.instances, func(i admin.Instance) bool { return i.ID == o.InstanceID || o.Host != "" && i.Host == o.Host })
		})
		s.jobList = sync.OnceValues(func() ([]byte, error) { return encoded(api.List("JobList", s.jobs)) })
		return s, nil
	})
}

// now is the group's time.
func (h *handler) now() time.Time {
	now, _, _ := h.client.Clock()
	return now
}

// encoded is a document as swctl -o json prints it, on one line.
func encoded(document any) ([]byte, error) {
	var text bytes.Buffer
	err := plain.JSON(&text, "", document)
	return text.Bytes(), err
}
