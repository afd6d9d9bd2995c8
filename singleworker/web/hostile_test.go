package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// evil is text that somebody may have written to the tree.
const evil = `</script></pre></title>"'><script>alert(1)</script><img src=x onerror=alert(2)> javascript:alert(3) ` +
	"\x1b[31m\u009b1m \u202egnisrever\u2066 \x00\a{{.}} ${x} `x`"

// Whatever names, errors and reasons hold, it is text, and nothing in it is hidden or obeyed.
func TestTextOfOthersIsText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		long := evil + strings.Repeat("x", 200-len(evil)%200) + strings.Repeat("\n4 KiB", 600)
		name := evil
		status := f.jobs[1]
		status.Name, status.Job.Name, status.Job.Handler, status.Job.Description = name, name, evil, evil
		status.Job.Args, status.Job.Labels = map[string]string{evil: evil}, map[string]string{evil: evil}
		status.Registered = []string{evil}
		status.Owner = &admin.Owner{InstanceID: evil, Since: noon}
		status.DeclaredBy, status.Resizing = evil, &admin.Resizing{WaitsFor: []string{evil}}
		status.Paused = &admin.Pause{By: evil, Reason: evil}
		status.Job.After, status.WaitsFor = []string{evil}, []admin.Parent{{Name: evil}}
		run := *status.LastRun
		run.Error, run.InstanceID, run.TakenFrom, run.State = long, evil, evil, evil
		status.LastRun = &run
		orphan := f.jobs[2]
		orphan.Name, orphan.Reason = "a"+evil, reason.Reason{Code: reason.OwnerGone, Owner: evil, Instances: []reason.Instance{{ID: evil, Why: evil}}}
		orphan.Owner = &admin.Owner{InstanceID: "gone" + evil}
		f.jobs = []admin.JobStatus{orphan, status}
		f.entries[name] = []history.Entry{{Run: run, To: run.Tick, Count: 1, Reason: evil}}
		f.instances = []admin.Instance{{
			ID: evil, Host: evil, State: evil, Version: evil, Program: evil, Reason: evil, Address: "javascript:alert(1)" + evil, Labels: map[string]string{evil: evil},
			Order: &admin.Order{By: evil, Reason: evil, Host: evil},
		}}
		f.orders = []admin.Order{{InstanceID: evil, By: evil, Reason: evil}}
		f.limits = []admin.Limit{{
			Name: evil, Error: evil, Set: evil, Jobs: []string{evil}, Held: []admin.HeldPlace{{Slot: evil}}, Waiting: []admin.WaitingInstance{{InstanceID: evil}},
		}, {Name: evil, Held: []admin.HeldPlace{{Slot: evil}}}}
		f.calendars = []admin.Calendar{{Name: evil, Error: evil, Set: evil, Jobs: []string{evil}, Is: job.Calendar{TimeZone: evil, Dates: []string{evil}}}}
		f.requests = []admin.Request{{Slot: evil, Kind: evil, By: evil, Reason: evil}}
		s := serve(t, f, Options{Title: evil, AllowActions: true, Token: token})
		q := url.QueryEscape(evil)
		for _, path := range []string{"/", "/jobs", "/job?name=" + q, "/instances", "/instance?id=" + q, "/calendars", "/limits", "/jobs?q=" + q + "&state=" + q + "&page=" + q} {
			harmless(t, path, s.get(path))
		}
		for _, path := range []string{"/job?name=no" + q, "/instance?id=no" + q, "/job?name=" + q + "&at=" + q} {
			harmless(t, path, s.do(http.MethodGet, path, nil).Body.String())
		}
		for _, path := range []string{"jobs", "jobs/" + url.PathEscape(evil), "jobs/no" + url.PathEscape(evil), "instances"} {
			w := s.do(http.MethodGet, "/api/v1/"+path, nil)
			var document any
			if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil || strings.ContainsAny(w.Body.String(), "\x1b\u009b\u202e\u2066\x00\a") {
				t.Errorf("%s: %v\n%q", path, err, w.Body)
			}
			if kind := w.Header().Get("Content-Type"); kind != "application/json" {
				t.Errorf("%s: %s", path, kind)
			}
		}
	})
}

func harmless(t *testing.T, path, page string) {
	t.Helper()
	if strings.ContainsAny(page, "\x1b\u009b\u202e\u2066\x00\a") {
		t.Errorf("%.40s has control characters", path)
	}
	for _, bad := range []string{"<script>alert", "<img src=x", `href="javascript:`, `"'><`} {
		if i := strings.Index(page, bad); i >= 0 {
			t.Errorf("%.40s: %s", path, page[max(0, i-100):min(len(page), i+100)])
		}
	}
	if strings.Count(page, "<script") != 1 || strings.Count(page, "</main>") != 1 {
		t.Errorf("%.40s is torn:\n%s", path, page)
	}
}
