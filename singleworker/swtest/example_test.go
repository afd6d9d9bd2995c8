package swtest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// example stands for the *testing.T that a test has and an Example has not.
type example struct{ cleanups []func() }

func (*example) Helper() {}

func (*example) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (*example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (e *example) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *example) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}

// handlers are the handlers under test.
var handlers = map[string]singleworker.Handler{
	"report": func(context.Context, *singleworker.Run) error { return nil },
}

// Two instances share a job: each tick runs on one of them.
func Example() {
	t := new(example)
	defer t.end()

	c := swtest.New(t, swtest.Config{})
	c.Start("one", handlers)
	c.Start("two", handlers)
	c.Submit(singleworker.Job{Name: "report", Schedule: "* * * * * ?"})
	runs := c.AwaitRuns("report", 2)
	c.AssertOnce("report")
	fmt.Println("by its owner:", runs[0].Instance == c.Owner("report"))
	// Output: by its owner: true
}

// An instance dies, and the other takes over its job.
func ExampleInstance_Kill() {
	t := new(example)
	defer t.end()

	c := swtest.New(t, swtest.Config{})
	one := c.Start("one", handlers, singleworker.Job{Name: "report", Schedule: "* * * * * ?"})
	c.AwaitOwner("report", "one")
	c.Start("two", handlers)
	one.Kill()
	c.AwaitOwner("report", "two")
	fmt.Println("owned by", c.Owner("report"))
	// Output: owned by two
}

// In virtual time a daily job can be tested as it is. A long session timeout makes long periods
// cheap, because instances poll less often.
func TestDailyJobInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{SessionTimeout: 10 * time.Minute})
		one := c.Start("one", handlers, singleworker.Job{Name: "report", Schedule: "@daily"})
		c.Start("two", handlers)
		c.AwaitOwned("report")
		time.Sleep(23 * time.Hour)
		if runs := c.Runs("report"); len(runs) != 0 {
			t.Errorf("it ran early: %+v", runs)
		}
		one.Kill()
		c.AwaitOwner("report", "two")
		time.Sleep(time.Hour)
		runs := c.AwaitRuns("report", 1)
		if len(runs) != 1 || runs[0].Instance != "two" || runs[0].Tick.Hour() != 0 {
			t.Errorf("%+v, want one run, at midnight, on two", runs)
		}
		c.AssertOnce("report")
	})
}
