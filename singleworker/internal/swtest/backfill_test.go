package swtest_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// pastJob is a job of a cluster that runs each minute, for three seconds, and what its handler saw.
type pastJob struct {
	t *testing.T
	c *swtest.Cluster

	mu    sync.Mutex
	begun int                  // runs of past ticks
	ended []admin.BackfillTick // past ticks, with success
}

func (p *pastJob) run(ctx context.Context, run *singleworker.Run) error {
	past := run.Past != ""
	p.mu.Lock()
	if past {
		p.begun++
	}
	p.mu.Unlock()
	if late := time.Since(run.Tick); !run.Manual && run.Attempt == 1 && late > 30*time.Second {
		p.t.Errorf("the tick of %v had to wait for %v", run.Tick, late)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(3 * time.Second):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if past {
		p.ended = append(p.ended, admin.BackfillTick{Tick: run.Tick.UTC(), Past: run.Past, Attempt: 1})
	}
	return nil
}

func (p *pastJob) past() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

func (p *pastJob) pause() {
	operate(p.t, p.c, func(client *admin.Client) error {
		_, err := client.Pause(p.t.Context(), "job", admin.PauseOptions{})
		return err
	})
}

func (p *pastJob) resume() {
	operate(p.t, p.c, func(client *admin.Client) error {
		_, err := client.Resume(p.t.Context(), "job", admin.ResumeOptions{})
		return err
	})
}

func (p *pastJob) backfill(opts admin.BackfillOptions) (id string, of admin.BackfillTicks) {
	p.t.Helper()
	operate(p.t, p.c, func(client *admin.Client) error {
		result, err := client.Backfill(p.t.Context(), "job", opts)
		if err == nil {
			id, of = result.ID, result.Slots[0]
		}
		return err
	})
	return id, of
}

func (p *pastJob) killOwner() {
	p.t.Helper()
	owner := status(p.t, p.c, "job").Owner
	if owner == nil {
		p.t.Fatal("nobody owns the job")
	}
	for _, i := range p.c.Live() {
		if i.Name == owner.InstanceID {
			i.Kill()
		}
	}
}

// Ticks that a pause has skipped are run by a backfill, in order and each with success once, also
// if owners are killed meanwhile. Ticks of the schedule, and manual runs, go before them. A pause
// holds the rest, and the rest can be stopped.
func TestBackfill(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		p := &pastJob{t: t, c: c}
		for _, name := range []string{"i0", "i1", "i2"} {
			c.Start(name, swtest.Setup{Handlers: map[string]singleworker.Handler{"job": p.run}})
		}
		time.Sleep(settled)
		if err := c.Submit(t.Context(), job.Job{Name: "job", Schedule: "0 * * * * ?"}); err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		p.pause()
		time.Sleep(100 * time.Minute)
		p.resume()
		to := time.Now()
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 10*time.Second)))
		id, dry := p.backfill(admin.BackfillOptions{From: from, To: to, DryRun: true})
		want := dry.Ticks
		if id != "" || len(want) < 99 {
			t.Fatalf("a dry run has %d ticks, request %q", len(want), id)
		}
		first, asked := p.backfill(admin.BackfillOptions{From: from, To: to, By: "ann"})
		if first == "" || !slices.Equal(asked.Ticks, want) {
			t.Fatalf("asked for %+v", asked)
		}
		if id, again := p.backfill(admin.BackfillOptions{From: from, To: to}); id != "" || again.LeftOut["open"] != len(want) {
			t.Errorf("asked for again: %+v", again)
		}
		time.Sleep(20 * time.Second)
		p.killOwner()
		time.Sleep(time.Minute)
		operate(t, c, func(client *admin.Client) error { // goes before the others
			run, err := client.Trigger(t.Context(), "job", admin.TriggerOptions{})
			if err != nil {
				return err
			}
			n := p.past()
			if _, err := client.AwaitRun(t.Context(), "job", run.ID); err != nil || p.past() > n+2 {
				t.Errorf("%d past ticks went before a manual run, %v", p.past()-n, err)
			}
			return nil
		})
		p.pause()
		time.Sleep(5 * time.Second)
		held := p.past()
		time.Sleep(5 * time.Minute)
		if n := p.past(); n != held || n < 10 {
			t.Errorf("%d runs, %d when the pause began", n, held)
		}
		var waiting []admin.Request
		operate(t, c, func(client *admin.Client) (err error) {
			waiting, err = client.Requests(t.Context(), "job")
			return err
		})
		if len(waiting) != 1 || waiting[0].ID != first || waiting[0].Backfill.Total != len(want) || waiting[0].Backfill.Taken < 10 {
			t.Errorf("waiting: %+v", waiting)
		}
		p.resume()
		time.Sleep(10 * time.Second)
		p.killOwner()
		time.Sleep(10 * time.Minute)
		p.mu.Lock()
		if !slices.Equal(p.ended, want) {
			t.Errorf("ran with success\n%v, asked for\n%v", p.ended, want)
		}
		p.mu.Unlock()
		id, _ = p.backfill(admin.BackfillOptions{From: from, To: to, Only: []history.Past{history.PastForgotten}})
		time.Sleep(10 * time.Second)
		operate(t, c, func(client *admin.Client) (err error) {
			waiting, err = client.CancelRequests(t.Context(), "job", id)
			return err
		})
		held = p.past()
		time.Sleep(time.Minute)
		if n := p.past(); len(waiting) != 1 || n > held+1 {
			t.Errorf("stopped %+v, and then %d more were run", waiting, n-held)
		}
	})
}
