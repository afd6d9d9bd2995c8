package web

import (
	"html"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// A job is edited as text, without its defaults. A text that is refused is shown once more, with
// the error, and the entity tag of the job that was edited.
func TestEdit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		f.jobs[1].ID = 77
		s := serve(t, f, Options{AllowActions: true, Token: token})
		s.wants("/job?name=nightly", `href="edit?name=nightly"`)
		page := html.UnescapeString(s.get("/edit?name=nightly"))
		for _, want := range []string{`"schedule": "0 10 * * *"`, `name="seen" value=""4d-2""`, `action="api/v1/jobs/nightly/submit"`, `name="token"`} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s in\n%s", want, page)
			}
		}
		if strings.Contains(page, "alarm_after") {
			t.Errorf("it has defaults:\n%s", page)
		}
		f.fail["Submit"] = admin.ErrConflict
		w := s.post(sent{path: "jobs/nightly/submit", form: form("spec", `{"schedule": "@hourly"}`, "seen", `"4d-2"`), header: http.Header{"Accept": {"text/html"}}})
		if text := html.UnescapeString(w.Body.String()); w.Code != http.StatusPreconditionFailed || !strings.Contains(text, "not as the condition") ||
			!strings.Contains(text, `{"schedule": "@hourly"}`) || !strings.Contains(text, `value=""4d-2""`) || !strings.Contains(text, `action="../../../../api/v1/jobs/nightly/submit"`) {
			t.Errorf("refused: %d\n%s", w.Code, text)
		}
		delete(f.fail, "Submit")
		w = s.post(sent{path: "jobs/nightly/submit", form: form("spec", `{"schedule": "@hourly"}`, "seen", `"4d-2"`), header: http.Header{"Accept": {"text/html"}}})
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "../../../../job?done=submit&name=nightly&of=nightly" {
			t.Errorf("changed: %d, to %s", w.Code, to)
		}
		if page := serve(t, f, Options{}).get("/edit?name=nightly"); strings.Contains(page, "<form") {
			t.Errorf("without actions there is a form:\n%s", page)
		}
	})
}
