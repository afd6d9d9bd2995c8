package swtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// strict is a TB that records the failures of the helpers under test.
type strict struct {
	*testing.T

	failures []string
}

func (s *strict) Errorf(format string, args ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *strict) Fatalf(format string, args ...any) { s.Errorf(format, args...) }

// told expects one failure with the given prefix and clears it.
func (s *strict) told(want string) {
	s.Helper()
	if len(s.failures) != 1 || !strings.HasPrefix(s.failures[0], want) {
		s.T.Errorf("told %q, want one %q", s.failures, want)
	}
	s.failures = nil
}

func bubble(t *testing.T, test func(t *strict, c *swtest.Cluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := &strict{T: t}
		test(tb, swtest.New(tb, swtest.Config{}))
		if tb.failures != nil {
			t.Errorf("told %q", tb.failures)
		}
	})
}

const everySecond = "* * * * * ?"

func TestHelpersReportFailures(t *testing.T) {
	bubble(t, func(t *strict, c *swtest.Cluster) {
		c.AwaitOwned("report")
		t.told(`swtest: after 20s nobody owns ["report"]`)
		c.AssertOnce("report")
		t.told("swtest: report never ran")
		c.Submit(singleworker.Job{Name: "report", Schedule: everySecond})
		c.Submit(singleworker.Job{Name: "report", Schedule: everySecond}) // as it is: fine
		c.Submit(singleworker.Job{Name: "report", Schedule: "@daily"})
		t.told("swtest: submit report: submit report: job exists and differs")
		c.Start("one", handlers)
		c.AwaitOwner("report", "two")
		t.told(`swtest: after 20s report is owned by "one", want "two"`)
		c.Cancel("report")
		n := len(c.Runs("report"))
		c.AwaitRuns("report", n+1)
		t.told("swtest: after 20s report has ")
		if owners := c.Owners(); len(owners) != 0 {
			t.T.Errorf("a canceled job is owned: %v", owners)
		}
	})
}

// A handler that ignores its context continues after its lease has ended. AssertOnce does not
// report that: it reports two runs that hold the lease.
func TestAssertOnceWithPartitionedOwner(t *testing.T) {
	bubble(t, func(_ *strict, c *swtest.Cluster) {
		stubborn := map[string]singleworker.Handler{"report": func(context.Context, *singleworker.Run) error {
			time.Sleep(10 * time.Second)
			return nil
		}}
		one := c.Start("one", stubborn, singleworker.Job{Name: "report", Schedule: everySecond})
		c.AwaitOwner("report", "one")
		c.Start("two", handlers)
		time.Sleep(2 * time.Second)
		one.Partition()
		c.AwaitOwner("report", "two")
		c.AwaitRuns("report", 3)
		one.Heal()
		time.Sleep(20 * time.Second)
		c.AssertOnce("report")
	})
}

// A Manager that the application creates joins the group.
func TestManagerConfig(t *testing.T) {
	bubble(t, func(t *strict, c *swtest.Cluster) {
		m, err := singleworker.New(c.ManagerConfig("own"))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Handle("report", handlers["report"]); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		c.Submit(singleworker.Job{Name: "report", Schedule: everySecond})
		c.AwaitOwner("report", "own")
		other := c.Start("other", handlers)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		c.AwaitOwner("report", "other")
		if err := other.Stop(); err != nil || other.Name() != "other" || c.Server().Zxid() == 0 {
			t.T.Errorf("%s: %v", other.Name(), err)
		}
	})
}

// Each shard of a job has an owner and runs each tick once.
func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		handlers := map[string]singleworker.Handler{"rows": func(context.Context, *singleworker.Run) error { return nil }}
		job := singleworker.Job{Name: "rows", Schedule: everySecond, Shards: 3, ShardParameters: map[int]string{1: "Beijing"}}
		c.Start("one", handlers, job)
		c.Start("two", handlers, job)
		c.AwaitOwned("rows")
		for shard := range 3 {
			if name := fmt.Sprintf("rows[%d]", shard); c.Owner(name) == "" {
				t.Errorf("nobody owns %s", name)
			}
		}
		for _, r := range c.AwaitRuns("rows", 9) {
			want := singleworker.Shard{Index: r.Shard.Index, Total: 3, Parameter: job.ShardParameters[r.Shard.Index]}
			if r.Shard != want {
				t.Errorf("a run with %+v, want %+v", r.Shard, want)
			}
		}
		c.AssertOnce("rows")
	})
}
