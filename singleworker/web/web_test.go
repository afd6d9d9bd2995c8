package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

var update = flag.Bool("update", false, "write the golden files")

// asked are requests for documents, with their queries.
var asked = []string{
	"jobs", "jobs/nightly", "jobs/parts%5B1%5D", "jobs/nightly/history", "jobs/nightly/why", "jobs/nightly/why?at=2000-01-01T09:00:00Z",
	"jobs/nightly/ticks?n=2", "jobs/nightly/log?n=2", "jobs/nightly/log?failed=true&until=1999-12-29T00:00:00Z", "jobs/nightly/summary", "instances", "instances/app-2", "doctor",
	"jobs/nope", "jobs/nope/why", "jobs/nightly/why?at=noon", "jobs/nightly/ticks?n=1001", "jobs/broken/ticks", "jobs/nightly/log?n=0", "jobs/nightly/log?since=noon", "instances/nope", "nothing",
}

// The API's answers are a contract.
func TestDocumentsGolden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{History: nightlyLog(f), Group: "billing"})
		var text bytes.Buffer
		for _, document := range asked {
			w := s.do(http.MethodGet, "/api/v1/"+document, nil)
			fmt.Fprintf(&text, "# GET api/v1/%s: %d %s\n", document, w.Code, w.Header().Get("Content-Type"))
			if err := json.Indent(&text, w.Body.Bytes(), "", "  "); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
		golden(t, "documents", text.Bytes())
		if w := serve(t, f, Options{}).do(http.MethodGet, "/api/v1/jobs/nightly/log", nil); w.Code != http.StatusNotFound {
			t.Errorf("a log that is not there: %d %s", w.Code, w.Body)
		}
	})
}

func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, text) {
		t.Errorf("%v; %s differs: run the test with -update and look at the difference", err, path)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		f.jobs[1].Job.After = []string{"load & go", "dump"}
		s := serve(t, f, Options{Title: "billing"})
		s.wants("/", "<title>Needs attention · billing</title>", "2 instances", "4 jobs", "5 problems",
			"record is garbage; repair the job", "swctl repair broken", "no instance has registered handler &#34;orphan&#34;", "swctl set orphan --handler HANDLER",
			"failed 4 times in a row, last success 1d3h ago", "swctl history nightly --failed", "<code>dial tcp: connection refused</code>", "on app-2, since", "its clock is 7s ahead", "swctl instances show app-2",
			"paused until it is resumed, by alice@ops: migration", "swctl resume parts")
		s.wants("/jobs", "4 jobs", "failed 3h ago", `<a href="job?name=nightly">nightly</a>`, "in 21h")
		s.wants("/job?name=nightly", "connection refused", "<pre tabindex=\"0\">dial tcp: connection refused\nmain.report()</pre>", "3 ticks until 2000-01-01 08:00:00 UTC",
			"app-3 had not claimed it", "2000-01-02 10:00:00 CET", "2000-01-02 09:00:00 UTC", "run of nightly 1m ago by ann@ops again",
			"name=nightly&amp;at=2000-01-01T09%3A00%3A00Z#why", "2 runs, median 40s, longest 40s", "<dt>time zone</dt><dd>Europe/Berlin</dd>", "<dt>labels</dt><dd>team=billing</dd>",
			"<dt>Schedule</dt><dd>every day at 10:00 Europe/Berlin</dd>", "Try: </span><code>swctl history nightly --failed</code>", `<a href="job?name=load%20%26%20go">load &amp; go</a>, <a href="job?name=dump">dump</a>`)
		s.wants("/job?name=nightly&at=2000-01-01T09:00:00Z", "Why: the tick of 2000-01-01T09:00:00Z", "ran on app-2 from")
		s.wants("/job?name=parts", "parts[1]")
		s.wants("/instances", "app-9 is disabled 1h ago by bob@ops: disk", "1/20", "5h ago</time>", "it hung: it gave no sign of life for 1h")
		s.wants("/instance?id=app-2", "0x10a, timeout 10s", "report")
		if page := s.get("/jobs?q=ORPH"); strings.Contains(page, "name=nightly") || !strings.Contains(page, "name=orphan") {
			t.Errorf("filtered by name:\n%s", page)
		}
		if page := s.get("/jobs?state=failing"); !strings.Contains(page, "name=nightly") || strings.Contains(page, "name=orphan") {
			t.Errorf("filtered by state:\n%s", page)
		}
	})
}

// All that can be wrong with a job or an instance is a problem, the worst first, unless it is meant
// or passes.
func TestEveryConditionIsAProblem(t *testing.T) {
	t.Parallel()
	now := noon
	s := &snapshot{
		jobs: judged([]admin.JobStatus{
			{Name: "1", State: admin.StateOwned, Paused: &admin.Pause{Since: now.Add(-25 * time.Hour)}, Failing: &admin.Failing{Runs: 1}},
			{Name: "2", State: admin.StateOwned, Overrun: now.Add(-time.Minute)},
			{Name: "a", State: admin.StateOwned, Owner: &admin.Owner{InstanceID: "app-5"}, Job: job.Job{Interrupted: job.InterruptedAsk}},
			{Name: "3", State: admin.StateOwned, Failing: &admin.Failing{Runs: 1}, Overrun: now.Add(-time.Minute)},
			{Name: "4", State: admin.StateOwned, Hung: &admin.Hung{Since: now.Add(-time.Hour)}, Failing: &admin.Failing{Runs: 1}},
			{Name: "5", State: admin.StateOwned, Watermark: now.Add(time.Hour)},
			{Name: "6", State: admin.StateOwned, Overdue: now.Add(-time.Hour), Hung: &admin.Hung{Since: now.Add(-time.Hour)}},
			{Name: "fine", State: admin.StateOwned, Resizing: &admin.Resizing{}},
			{Name: "meant", State: admin.StateOwned, Paused: &admin.Pause{Since: now}, Failing: &admin.Failing{Runs: 1}},
			{Name: "done", State: admin.StateDone, Reason: reason.Reason{Code: reason.Done}, DoneAt: now, Failing: &admin.Failing{Runs: 1}},
			{Name: "0", State: admin.StateOwned, Declarations: []admin.Declaration{{InstanceID: "a", Program: "1.0", Fingerprint: "1"}, {InstanceID: "b", Fingerprint: "2"}}},
			{Name: "7", State: admin.StateUnowned, Reason: reason.Reason{Code: reason.Waiting}, Overdue: now, Owner: &admin.Owner{InstanceID: "app-0"}},
			{Name: "8", State: admin.StateUnowned, Reason: reason.Reason{Code: reason.AllFull}},
			{Name: "9", State: admin.StateUnowned, Reason: reason.Reason{Code: reason.Unlisted}},
			{Name: "A", State: admin.StateInvalid, Reason: reason.Reason{Code: reason.BadSpec}},
		}, now),
		instances: []admin.Instance{
			{ID: "app-1", State: admin.InstanceWrongClock}, {ID: "app-2", State: admin.InstanceNone},
			{ID: "app-3", State: admin.InstanceDisabled, Order: &admin.Order{Host: "db 8", At: now.Add(-25 * time.Hour)}},
			{ID: "app-4", State: admin.InstanceDrained, Order: &admin.Order{Incarnation: "i4", At: now}, JobOrders: []admin.Order{{Job: "1"}}},
			{ID: "app-5", State: admin.InstanceActive, Silent: 5 * time.Second},
		},
	}
	var got, kinds []string
	for _, p := range attention(s, now) {
		got, kinds = append(got, p.What+" "+p.Word+": "+p.Remedy), append(kinds, p.Word)
	}
	want := []string{
		"A invalid: swctl submit A SCHEDULE --replace", "9 nobody may run it: swctl set 9 --instance ID", "8 full: swctl instances", "7 unowned: swctl why 7",
		"6 late: swctl why 6", "5 wrong clock: swctl why 5", "app-1 wrong clock: swctl instances show app-1", "4 hung: swctl stop-run 4", "3 failing: swctl history 3 --failed", "2 running over: swctl stop-run 2", "0 in conflict: swctl instances",
		"app-0 gone: swctl instances", "app-2 no record: swctl instances show app-2",
		"1 long paused: swctl resume 1", "a no resolver: swctl set a --interrupted rerun", "app-5 silent: swctl instances show app-5", "app-3 long disabled: swctl instances enable --host 'db 8'",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for _, m := range slices.Concat(reason.Meanings(), reason.InstanceMeanings()) {
		if m.Severity != reason.Fine && !slices.Contains(kinds, m.Word) {
			t.Errorf("%s: no problem is %q", m.Code, m.Word)
		}
	}
}

var link = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// Every link works under whatever path the handler is mounted, and leads to nowhere else.
func TestLinksUnderAnyPath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		s := serve(t, newFake(), Options{})
		mux := http.NewServeMux()
		mux.Handle("/admin/jobs/", http.StripPrefix("/admin/jobs", s.handler))
		s.handler = mux
		seen := map[string]bool{}
		for _, path := range paths {
			page := "/admin/jobs" + path
			for _, found := range link.FindAllStringSubmatch(s.get(page), -1) {
				base, _ := url.Parse(page)
				to, err := base.Parse(strings.ReplaceAll(found[1], "&amp;", "&"))
				switch {
				case err != nil:
					t.Errorf("%s: %v", page, err)
				case to.Host != "" || !strings.HasPrefix(to.Path, "/admin/jobs/"):
					t.Errorf("%s leads to %s", page, to)
				case !seen[to.RequestURI()]:
					seen[to.RequestURI()] = true
					s.get(to.RequestURI())
				}
			}
		}
		if len(seen) < len(paths) {
			t.Errorf("only %d links", len(seen))
		}
	})
}

// Every answer tells browsers to do only the pages' work.
func TestHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		s := serve(t, newFake(), Options{Hosts: []string{"localhost"}})
		for _, path := range append(paths, "/style.css", "/app.js", "/robots.txt", "/api/v1/jobs", "/api/v1/nothing", "/nothing", "/job?name=nope") {
			header := s.do(http.MethodGet, path, nil).Header()
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			} {
				if got := header.Get(name); got != want {
					t.Errorf("%s: %s: %q, want %q", path, name, got, want)
				}
			}
			for name := range header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s: %s", path, name)
				}
			}
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
				if code := s.do(method, path, nil).Code; code < http.StatusBadRequest {
					t.Errorf("%s %s: %d", method, path, code)
				}
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Error("the policy is not strict")
		}
		for _, path := range paths {
			if page := s.get(path); regexp.MustCompile(`\s(style|on\w+)=|<style|<script>`).MatchString(page) {
				t.Errorf("%s has what the policy forbids:\n%s", path, page)
			}
		}
		versioned := regexp.MustCompile(`style\.css\?v=\w+`).FindString(s.get("/"))
		if got := s.do(http.MethodGet, "/"+versioned, nil).Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
			t.Errorf("%s: Cache-Control %q", versioned, got)
		}
	})
}

// A name of the web that was pointed at this machine is not answered.
func TestHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		some, all := serve(t, newFake(), Options{Hosts: []string{"localhost", "Jobs.example.org"}}), serve(t, newFake(), Options{})
		for host, want := range map[string]int{
			"localhost": 200, "localhost:7468": 200, "LOCALHOST:1": 200, "127.0.0.1:7468": 200, "[::1]:7468": 200, "[::1]": 200, "10.0.0.5": 200, "jobs.example.org:80": 200, "jobs.example.org.": 200,
			"evil.example": 421, "evil.example:7468": 421, "localhost.evil.example": 421, "": 421, "127.0.0.1.evil.example": 421, "a:b:c": 421, "localhost:evil.example": 421, "localhost:99999": 421, "localhost:": 421,
		} {
			named := func(r *http.Request) { r.Host = host }
			for _, path := range []string{"/", "/api/v1/jobs", "/style.css"} {
				if got := some.do(http.MethodGet, path, named).Code; got != want {
					t.Errorf("%s at %q: %d, want %d", path, host, got, want)
				}
			}
			if got := all.do(http.MethodGet, "/", named).Code; got != http.StatusOK {
				t.Errorf("any host, %q: %d", host, got)
			}
		}
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	refused := new(invalid.FieldError)
	if _, err := Handler(newFake(), Options{Period: time.Millisecond}); !errors.As(err, &refused) || refused.Field != "Period" {
		t.Errorf("a short period: %v", err)
	}
}

// An error has its status, in both forms, and is kept no longer than a reading.
func TestErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{})
		for err, want := range map[error]int{
			admin.ErrUnavailable: 503, admin.ErrDenied: 502, context.DeadlineExceeded: 504, admin.ErrTooLong: 409, errors.New("a bug"): 500, errPanic: 500,
		} {
			f.fail["Group"] = err
			for _, path := range []string{"/", "/jobs", "/api/v1/jobs"} {
				if w := s.do(http.MethodGet, path, nil); w.Code != want || !strings.Contains(html.UnescapeString(w.Body.String()), err.Error()) {
					t.Errorf("%s: %v: %d\n%s", path, err, w.Code, w.Body)
				}
			}
			if n := f.count("Group"); n != 1 {
				t.Errorf("%v: %d readings in a period, want one", err, n)
			}
			f.calls["Group"] = 0
			time.Sleep(defaultPeriod)
		}
		delete(f.fail, "Group")
		s.get("/")
	})
}

var errPanic = errors.New("the worst")

// However many look, the group is read once in a period, and not while nobody looks.
func TestReadingsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{Period: 2 * time.Second})
		for range 10 {
			for range 6 {
				go s.get("/")
				go s.get("/api/v1/jobs")
				go s.get("/job?name=nightly")
				go s.get("/doctor")
				go s.get("/api/v1/doctor")
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		for call, most := range map[string]int{"Group": 5, "Job": 5, "Examine": 5} {
			if n := f.count(call); n == 0 || n > most {
				t.Errorf("%d calls of %s in ten seconds, want at most %d", n, call, most)
			}
		}
		before := f.count("Group")
		time.Sleep(time.Hour)
		if n := f.count("Group"); n != before {
			t.Errorf("%d readings while nobody looked", n-before)
		}
	})
}

// After a reading that took long, the servers have rest. Those who wait may go, and the reading
// serves the others.
func TestSlowReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		f.hold = make(chan struct{})
		s := serve(t, f, Options{Period: time.Second})
		impatient, leave := context.WithCancel(t.Context())
		var codes [2]int
		go func() {
			codes[0] = s.do(http.MethodGet, "/", func(r *http.Request) { *r = *r.WithContext(impatient) }).Code
		}()
		synctest.Wait()
		go func() { codes[1] = s.do(http.MethodGet, "/", nil).Code }()
		time.Sleep(3 * time.Second)
		leave()
		synctest.Wait()
		if codes[0] == 0 || codes[0] == http.StatusOK || codes[1] != 0 {
			t.Errorf("after one left: %v", codes)
		}
		close(f.hold)
		synctest.Wait()
		if codes[1] != http.StatusOK || f.count("Group") != 1 {
			t.Errorf("the other: %d, after %d readings", codes[1], f.count("Group"))
		}
		time.Sleep(29 * time.Second)
		if s.get("/"); f.count("Group") != 1 {
			t.Error("no rest after a reading of three seconds")
		}
		time.Sleep(2 * time.Second)
		if s.get("/"); f.count("Group") != 2 {
			t.Errorf("%d readings after half a minute", f.count("Group"))
		}
		f.hold = make(chan struct{})
		time.Sleep(time.Minute)
		if w := s.do(http.MethodGet, "/", nil); w.Code != http.StatusGatewayTimeout {
			t.Errorf("a reading that does not end: %d", w.Code)
		}
	})
}

// maxWeight is the weight of a page with all that it loads, as it is sent.
const maxWeight = 150 << 10

// Every page of a group with many jobs stays light, and says how many there are.
func TestPagesAreLight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		sick, well, past := f.jobs[1], f.jobs[1], f.entries["nightly"]
		well.Failing = nil
		f.jobs = nil
		for i := range 500 {
			job := well
			if i%2 == 0 {
				job = sick
			}
			job.Name = fmt.Sprintf("a-job-with-a-rather-long-name-%04d", i)
			f.jobs, f.entries[job.Name] = append(f.jobs, job), past
		}
		for i := range 30 {
			one := f.instances[1]
			one.ID = fmt.Sprintf("instance-%02d", i)
			f.instances = append(f.instances, one)
		}
		s := serve(t, f, Options{})
		rest := s.weight("/style.css") + s.weight("/app.js")
		for _, path := range []string{"/", "/jobs", "/jobs?page=3", "/job?name=" + f.jobs[0].Name, "/instances", "/instance?id=app-1", "/timeline?span=28d", "/timeline?span=28d&by=instance", "/owners", "/calendar", "/log", "/doctor"} {
			if n := s.weight(path) + rest; n > maxWeight {
				t.Errorf("%s: %d bytes", path, n)
			}
		}
		s.wants("/", "281 problems", "250 jobs", "and 200 more", "31 instances")
		s.wants("/jobs?page=3", "401 to 500 of 500")
	})
}

// Each reading of a job, or of a page of jobs, explains and draws all times that viewers ask for.
func TestTimesShareReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{})
		for i := range 50 {
			at := noon.Add(-time.Duration(i) * time.Hour).Format(time.RFC3339)
			s.wants("/api/v1/jobs/nightly/why?at="+at, at)
			s.get("/job?name=nightly&at=" + at)
			s.get("/timeline?end=" + at)
		}
		for _, far := range []string{"0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"} {
			s.get("/api/v1/jobs/nightly/why?at=" + far)
			s.get("/timeline?span=28d&end=" + far)
		}
		for _, call := range []string{"Group", "Job", "Histories"} {
			if n := f.count(call); n != 1 {
				t.Errorf("%d calls of %s, want one", n, call)
			}
		}
	})
}

// The page of calendars has what swctl calendars prints, and when each is next.
func TestCalendars(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{})
		s.wants("/calendars", "01-01, 12-25..12-26; Europe/Berlin", "2000-01-01 00:00:00 CET to 2000-01-02 00:00:00 CET", "2000-12-25 00:00:00 CET to 2000-12-27 00:00:00 CET",
			`<a href="job?name=orphan">orphan</a>`, "1 before", "12-25; Europe/Berlin", "not JSON", "of files")
		s.wants("/calendar", `<a href="calendars">`)
		f.calendars = nil
		time.Sleep(maxRest)
		s.wants("/calendars", "has no calendars")
	})
}

// The page of limits has who holds places, and who waits, and a job's page leads there.
func TestLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{})
		s.wants("/limits", "2 of 2", `<a href="job?name=nightly">nightly</a>`, "gone[3]", "swctl limits free",
			`<a href="instance?id=app-1">app-1</a>`, "not JSON", "of files")
		s.wants("/calendar", `<a href="limits">`)
		for i := range f.jobs {
			f.jobs[i].Job.Limits = map[string]int{"crm-api": 1, "db": 2}
		}
		time.Sleep(maxRest)
		s.wants("/job?name=nightly", `<a href="limits">crm-api db ×2 </a>`)
		f.limits = nil
		time.Sleep(maxRest)
		s.wants("/limits", "has no limits")
	})
}
