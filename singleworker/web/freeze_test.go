package web

import (
	"testing"
	"testing/synctest"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// Each page says that the group is frozen.
func TestFrozenGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		f.jobs[1].Frozen = &admin.Pause{Since: noon, By: "ops", Reason: "upgrade"}
		s := serve(t, f, Options{Group: "billing"})
		for _, path := range []string{"/", "/jobs", "/job?name=nightly", "/instances", "/log", "/doctor"} {
			s.wants(path, "group frozen until it is unfrozen, by ops: upgrade")
		}
	})
}
