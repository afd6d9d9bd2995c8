package web

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// The color of a state says how urgently somebody should look, whatever its word is.
func TestStatesAreColoredByHealth(t *testing.T) {
	t.Parallel()
	owned := admin.JobStatus{State: admin.StateOwned}
	failing, hung, paused, forgotten := owned, owned, owned, owned
	failing.Failing = &admin.Failing{Runs: 20}
	hung.Hung = &admin.Hung{Since: noon}
	paused.Paused, paused.Failing = &admin.Pause{Since: noon}, failing.Failing
	forgotten.Paused = &admin.Pause{Since: noon.Add(-25 * time.Hour)}
	for i, want := range []string{good, bad, bad, off, warn} {
		job := judged([]admin.JobStatus{owned, failing, hung, paused, forgotten}, noon)[i]
		if got := jobState(job); got.Class != want {
			t.Errorf("%d: %+v, want %s", i, got, want)
		}
	}
	for state, want := range map[history.State]string{
		history.StateOK: good, history.StateLost: bad, history.StateMissed: bad, history.StateUnknown: warn, history.StateRunning: busy, history.StateSkipped: off, "new": off,
	} {
		if got := runState(state).Class; got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
	for _, of := range []struct {
		i    admin.Instance
		want state
	}{
		{admin.Instance{State: admin.InstanceActive}, state{"active", good}}, {admin.Instance{State: admin.InstanceActive, Leader: true}, state{"leader", good}},
		{admin.Instance{State: admin.InstanceStandby}, state{"standby", off}}, {admin.Instance{State: admin.InstanceWrongClock}, state{"wrong_clock", bad}},
	} {
		if got := instanceRowOf(of.i, look{noon, time.UTC}).State; got != of.want {
			t.Errorf("%+v, want %+v", got, of.want)
		}
	}
}

// in reads a page in a time zone.
func (s site) in(zone, path string) string {
	return html.UnescapeString(s.do(http.MethodGet, path, func(r *http.Request) { r.Header.Set("Cookie", zoneCookie+"="+zone) }).Body.String())
}

// A browser has all times in its zone. A zone that does not exist is UTC.
func TestTimesAreInTheViewersZone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		s := serve(t, newFake(), Options{})
		for zone, want := range map[string][]string{
			"Asia/Kathmandu": {"17:45:00 +0545", "3 ticks until 2000-01-01 13:45:00 +0545", "Sunday 14:00 +0545: 42 ticks", "in Asia/Kathmandu", ">18:00<"},
			"nowhere":        {"12:00:00 UTC", "3 ticks until 2000-01-01 08:00:00 UTC", "Sunday 09:00 UTC: 42 ticks", "in UTC", ">09:00<"},
		} {
			pages := s.in(zone, "/") + s.in(zone, "/job?name=nightly") + s.in(zone, "/calendar") + s.in(zone, "/timeline")
			for _, text := range want {
				if !strings.Contains(pages, text) {
					t.Errorf("%s: no %q", zone, text)
				}
			}
		}
	})
}

// The table of jobs is sorted by any column, in both directions.
func TestJobsAreSorted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		quick := *f.jobs[1].LastRun
		quick.State, quick.Tick, quick.Started, quick.Ended = history.StateOK, noon.Add(-time.Minute), noon.Add(-time.Minute), noon.Add(-59*time.Second)
		f.jobs[2].LastRun = &quick
		s := serve(t, f, Options{})
		row := regexp.MustCompile(`<th scope="row"><a href="job\?name=(\w+)"`)
		for sort, want := range map[string]string{
			"": "broken nightly orphan parts", "-job": "parts orphan nightly broken", "state": "broken orphan nightly parts", "owner": "parts nightly broken orphan",
			"last": "orphan nightly broken parts", "took": "nightly orphan broken parts", "-took": "broken parts orphan nightly", "next": "parts nightly broken orphan", "nothing": "broken nightly orphan parts",
		} {
			var got []string
			for _, found := range row.FindAllStringSubmatch(s.get("/jobs?sort="+sort), -1) {
				got = append(got, found[1])
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("%q: %s, want %s", sort, got, want)
			}
		}
		s.wants("/jobs?sort=took&q=n&page=1", `aria-sort="ascending"><a href="?q=n&amp;sort=-took">Took`, `name="sort" value="took"`, `<td class="n" data-l="Took">40s</td>`,
			`aria-label="Last runs: 1 failed, 1 ok, 1 skipped"`)
	})
}

// Problems with one cause are one row, with a button for each that a button mends.
func TestProblemsOfOneCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		for i := range 2 {
			for _, of := range []int{1, 2, 3} { // failing, without a handler, paused
				one := f.jobs[of]
				one.Name = fmt.Sprintf("%s-%d", one.Name, i)
				f.jobs = append(f.jobs, one)
			}
		}
		s := serve(t, f, Options{AllowActions: true, Token: token})
		s.wants("/", "</strong> 3 jobs</p>", `no instance has registered handler &#34;orphan&#34;</p>`, `<p class="cause"><code>dial tcp: connection refused</code></p>`,
			`formaction="api/v1/jobs/parts-1/resume">Resume</button>`, `<a href="job?name=orphan-1">`)
		if page := s.get("/"); strings.Count(page, `class="kind"`) != 5 || strings.Count(page, "<button form=") != 3 {
			t.Errorf("%d causes, %d buttons", strings.Count(page, `class="kind"`), strings.Count(page, "<button form="))
		}
		if page := serve(t, f, Options{}).get("/"); strings.Contains(page, "<button form=") || !strings.Contains(page, "swctl resume parts-1") {
			t.Error("buttons for nobody, or no command")
		}
	})
}

// A browser that acts comes back to where it was, and is told once that it is done.
func TestBackFromAnAction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		s := serve(t, newFake(), Options{AllowActions: true, Token: token})
		for _, test := range []struct{ path, field, value, page, says string }{
			{"jobs/nightly/trigger", "", "", "/job?done=trigger&name=nightly&of=nightly", "A run was requested: nightly."},
			{"jobs/parts%5B1%5D/trigger", "", "", "/job?done=trigger&name=parts%5B1%5D&of=parts%5B1%5D", "A run was requested."},
			{"jobs/nightly/pause", "back", "first", "/?done=pause&of=nightly", "Paused: nightly."},
			{"jobs/nightly/pause", "back", "https://evil.example", "/job?done=pause&name=nightly&of=nightly", "Paused: nightly."},
			{"jobs/nightly/cancel", "confirm", "nightly", "/jobs?done=cancel&of=nightly", "Canceled: nightly."},
			{"instances/app-2/drain", "", "", "/instance?done=drain&id=app-2&of=app-2", "Told to drain: app-2."},
		} {
			w := s.post(sent{path: test.path, form: form(test.field, test.value), header: http.Header{"Accept": {"text/html"}}})
			from, _ := url.Parse("/api/v1/" + test.path)
			to, err := from.Parse(w.Header().Get("Location"))
			if err != nil || w.Code != http.StatusSeeOther || to.RequestURI() != test.page {
				t.Errorf("%s: %d, to %s, %v; want %s", test.path, w.Code, to, err, test.page)
			}
			s.wants(test.page, test.says)
		}
		if page := s.get("/?done=resume&of=your+money+is+lost"); strings.Contains(page, "your money") || !strings.Contains(page, "Resumed.") {
			t.Error("a link says what it wants")
		}
	})
}

// Links lead from a run to wherever the template says, and with any names nowhere else.
func TestRunURL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		f.entries["nightly"][0].InstanceID = `"/../?a&b#`
		serve(t, f, Options{RunURL: "https://logs.example.org/{job}?run={run}&on={instance}&from={started_ms}&to={ended}"}).
			wants("/job?name=nightly", `href="https://logs.example.org/nightly?run=0198c5e2&amp;on=%22%2F..%2F%3Fa%26b%23&amp;from=946717200040&amp;to=2000-01-01T09%3A00%3A41Z"`)
		for _, not := range []string{"javascript:alert(1)", "logs/{run}", "https:{run}"} {
			if _, err := Handler(f, Options{RunURL: not}); err == nil {
				t.Errorf("%q is a URL", not)
			}
		}
	})
}
