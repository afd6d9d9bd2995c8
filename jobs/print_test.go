package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/jobs"
	"github.com/swjobs/singleworker/singleworker"
)

func ExamplePrintNumber() {
	number := jobs.PrintNumber(os.Stdout)
	for _, job := range []string{"apples", "pears", "apples"} {
		if err := number(context.Background(), &singleworker.Run{Job: job}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// apples 1
	// pears 1
	// apples 2
}

func ExamplePrintTime() {
	tick := time.Date(2026, 12, 24, 18, 0, 0, 0, time.FixedZone("CET", 3600))
	err := jobs.PrintTime(os.Stdout)(context.Background(), &singleworker.Run{Job: "presents", Tick: tick})
	fmt.Println(err)
	// Output:
	// presents 2026-12-24T18:00:00+01:00
	// <nil>
}

var errDiskFull = errors.New("disk full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errDiskFull }

func TestPrintReturnsWriteErrors(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]singleworker.Handler{
		"number": jobs.PrintNumber(fullDisk{}),
		"time":   jobs.PrintTime(fullDisk{}),
	} {
		if err := handler(t.Context(), &singleworker.Run{Job: name}); !errors.Is(err, errDiskFull) {
			t.Errorf("%s: %v, want %v", name, err, errDiskFull)
		}
	}
}

// Jobs that share a handler run concurrently: each counts its own runs, and lines are not
// interleaved.
func TestPrintNumberConcurrently(t *testing.T) {
	t.Parallel()
	const runs, instances = 50, 4
	var out strings.Builder
	number := jobs.PrintNumber(&out)
	done := make(chan error)
	for i := range instances {
		go func() {
			var err error
			for range runs {
				err = errors.Join(err, number(t.Context(), &singleworker.Run{Job: fmt.Sprintf("job-%d", i)}))
			}
			done <- err
		}()
	}
	for range instances {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != runs*instances {
		t.Errorf("%d lines, want %d", len(lines), runs*instances)
	}
	for i := range instances {
		if last := fmt.Sprintf("job-%d %d\n", i, runs); strings.Count(out.String(), last) != 1 {
			t.Errorf("want one line %q", last)
		}
	}
}
