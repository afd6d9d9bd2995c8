package swtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Admin calls f with a client of package admin on a session of its own, as swctl has, and fails the
// test with f's error. The context of f ends after Config.Timeout.
func (c *Cluster) Admin(f func(ctx context.Context, client *admin.Client) error) {
	c.tb.Helper()
	c.operate("admin", f)
}

func (c *Cluster) operate(what string, f func(ctx context.Context, client *admin.Client) error) {
	c.tb.Helper()
	c.within(what, func(ctx context.Context) error {
		return c.group.Operate(ctx, func(client *admin.Client) error { return f(ctx, client) })
	})
}

// within fails the test with the error of f, whose context ends after Config.Timeout.
func (c *Cluster) within(what string, f func(ctx context.Context) error) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	if err := f(ctx); err != nil {
		c.tb.Fatalf("swtest: %s: %v", what, err)
	}
}

// Submit creates a job like an operator. It does nothing if the same job exists, and fails the test
// if the existing job differs.
func (c *Cluster) Submit(job singleworker.Job) {
	c.tb.Helper()
	c.within("submit "+job.Name, func(ctx context.Context) error { return c.group.Submit(ctx, job) })
}

// Cancel deletes a job like an operator. It does nothing if there is none.
func (c *Cluster) Cancel(job string) {
	c.tb.Helper()
	c.within("cancel "+job, func(ctx context.Context) error { return c.group.Cancel(ctx, job) })
}

// Trigger asks for a manual run of a job like an operator, without waiting for it.
func (c *Cluster) Trigger(job string) {
	c.tb.Helper()
	c.operate("trigger "+job, func(ctx context.Context, client *admin.Client) error {
		_, err := client.Trigger(ctx, job, admin.TriggerOptions{})
		return err
	})
}

// Pause suspends the schedule of a job like an operator, until Resume.
func (c *Cluster) Pause(job string) {
	c.tb.Helper()
	c.operate("pause "+job, func(ctx context.Context, client *admin.Client) error {
		_, err := client.Pause(ctx, job, admin.PauseOptions{})
		return err
	})
}

// Resume ends the pause of a job. The ticks of the pause are skipped.
func (c *Cluster) Resume(job string) {
	c.tb.Helper()
	c.operate("resume "+job, func(ctx context.Context, client *admin.Client) error {
		_, err := client.Resume(ctx, job, admin.ResumeOptions{})
		return err
	})
}

// Drain orders an instance to release everything that it owns, like an operator, and waits until it
// has and its runs have ended.
func (c *Cluster) Drain(instance string) {
	c.tb.Helper()
	c.operate("drain "+instance, func(ctx context.Context, client *admin.Client) error {
		if _, err := client.Drain(ctx, instance, admin.OrderOptions{}); err != nil {
			return err
		}
		_, _, err := client.AwaitDrained(ctx, instance)
		return err
	})
}

// reasons says for each job, or shard, how it stands and why its last tick was run or not, a line
// each, as swctl does.
func (c *Cluster) reasons(jobs ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	var b strings.Builder
	err := c.group.Operate(ctx, func(client *admin.Client) error {
		for _, name := range jobs {
			status, err := client.Get(ctx, name)
			if err != nil {
				fmt.Fprintf(&b, "\n\t%v", err)
				continue
			}
			fmt.Fprintf(&b, "\n\t%s: %s %s", name, status.State, status.Reason)
			why, err := client.Why(ctx, name, time.Time{})
			if err != nil {
				return err
			}
			for _, line := range words.Why(why) {
				fmt.Fprintf(&b, "\n\t%s", line)
			}
		}
		return nil
	})
	if err != nil {
		fmt.Fprintf(&b, "\n\t%v", err)
	}
	return b.String()
}
