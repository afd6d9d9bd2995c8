package web

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// The log says who did what, of one job if asked for, and is read once for all who look.
func TestWhoDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{})
		s.wants("/log", "migration", "nightly, orphan and 3 more", "bob@&lt;laptop&gt;", "app-2", "ZooKeeper did not answer app-1")
		if text := s.get("/log?job=nightly"); !strings.Contains(text, "nightly, orphan and 3 more") || strings.Contains(text, "migration") {
			t.Errorf("of one job:\n%s", text)
		}
		s.wants("/log?job=parts", "migration", `href="job?name=parts"`)
		s.wants("/api/v1/log", `"kind":"Log"`, `"reason":"migration"`)
		s.wants("/job?name=nightly", `href="log?job=nightly"`)
		if n := f.count("Log"); n != 1 {
			t.Errorf("the log was read %d times, want once", n)
		}
		f.log = make([]admin.LogEntry, maxLogRows+7)
		time.Sleep(defaultPeriod)
		s.wants("/log", "and 7 older ones")
	})
}

// The doctor's findings are on a page, with a remedy for each, and all that is in order below them.
func TestDoctorPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{})
		text := s.get("/doctor")
		wrong, fine, _ := strings.Cut(text, ">In order<")
		if !strings.Contains(wrong, "no_handler") || !strings.Contains(wrong, "swctl set orphan --handler") || !strings.Contains(fine, "<dt>jobs</dt>") || strings.Contains(wrong, "<dt>jobs</dt>") {
			t.Error(text)
		}
	})
}
