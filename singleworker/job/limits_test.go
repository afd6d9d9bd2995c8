package job_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/job"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	many := make(map[string]int)
	for k := range job.MaxLimits + 1 {
		many[string(rune('a'+k))] = 1
	}
	for name, limits := range map[string]map[string]int{
		"too many": many, "no name": {"": 1}, "a path": {"a/b": 1}, "no place": {"api": 0}, "fewer than none": {"api": -1}, "more than there can be": {"api": job.MaxPlaces + 1},
	} {
		if err := (job.Job{Name: "j", Schedule: "@hourly", Limits: limits}).Validate(); err == nil {
			t.Errorf("%s: the job is valid", name)
		}
	}
	if err := (job.Job{Name: "j", Schedule: "@hourly", Everywhere: true, Limits: map[string]int{"api": 1}}).Validate(); err == nil {
		t.Error("the part of an instance that is gone keeps its places")
	}
	if err := (job.Job{Name: "j", Schedule: "@hourly", Limits: map[string]int{"api": 1, "db": job.MaxPlaces}}).Validate(); err != nil {
		t.Error(err)
	}
	for _, places := range []int{-1, 0, job.MaxPlaces + 1} {
		if job.CheckMax(places) == nil {
			t.Errorf("a limit may have %d places", places)
		}
	}
	if err := job.CheckMax(1); err != nil {
		t.Error(err)
	}
}
