package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The last attempt at a tick that failed has a button that asks for one more, for those who may
// trigger the job, unless one is to come by itself. The button and a program name the tick.
func TestRetryButton(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{AllowActions: true, Authorize: byRole})
		const button = `formaction="api/v1/jobs/nightly/trigger" name="tick" value="2000-01-01T09:00:00Z">Retry<`
		if page := s.as("bob", http.MethodGet, "/job?name=nightly", nil, nil).Body.String(); strings.Contains(page, ">Retry<") {
			t.Error("a run that will be retried by itself has a button")
		}
		for k := range f.entries["nightly"] {
			f.entries["nightly"][k].NextAttempt, f.entries["nightly"][k].NextAttemptAt = "", time.Time{}
		}
		time.Sleep(time.Minute) // until it is read again
		for user, want := range map[string]int{"bob": 1, "eve": 0} {
			page := s.as(user, http.MethodGet, "/job?name=nightly", nil, nil).Body.String()
			if strings.Count(page, button) != want || strings.Count(page, ">Retry<") != want {
				t.Errorf("%s sees %d buttons, of this run %d, want %d", user, strings.Count(page, ">Retry<"), strings.Count(page, button), want)
			}
		}
		tick := noon.Add(-3 * time.Hour)
		for _, again := range []string{"", "true"} {
			f.changes = nil
			w := s.as("bob", http.MethodPost, "/api/v1/jobs/nightly/trigger", form("tick", tick.Format(time.RFC3339), "again", again), nil)
			if w.Code != http.StatusOK || !slices.Equal(f.changes, []string{"Trigger nightly bob (web, 192.0.2.1) because"}) || !f.triggered.Tick.Equal(tick) || f.triggered.Again != (again == "true") {
				t.Errorf("again=%q: %d, %q, %+v\n%s", again, w.Code, f.changes, f.triggered, w.Body)
			}
		}
		f.changes = nil
		if w := s.as("bob", http.MethodPost, "/api/v1/jobs/nightly/trigger", form("tick", "09:00"), nil); w.Code != http.StatusBadRequest || len(f.changes) > 0 {
			t.Errorf("a tick without a day: %d, %q\n%s", w.Code, f.changes, w.Body)
		}
	})
}
