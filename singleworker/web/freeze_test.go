package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// The first page freezes the group and unfreezes it, for those who may, say why, and type the word
// that confirms it.
func TestFreezeButton(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{AllowActions: true, Token: token})
		s.wants("/", `formaction="api/v1/freeze"`, `name="reason"`, `name="for"`)
		for _, bad := range []sent{
			{path: "freeze", form: form()}, {path: "freeze", form: form("confirm", "unfreeze")}, {path: "unfreeze", form: form("confirm", "freeze")},
			{path: "freeze", form: form("confirm", "freeze", "reason", "")}, {path: "freeze", form: form("confirm", "freeze", "for", "soon")},
			{path: "freeze", form: form("confirm", "freeze", "token", "wrong")},
		} {
			if w := s.post(bad); w.Code != http.StatusBadRequest && w.Code != http.StatusUnauthorized {
				t.Errorf("%+v: %d %s", bad, w.Code, w.Body)
			}
		}
		html := http.Header{"Accept": {"text/html"}}
		w := s.post(sent{"freeze", form("confirm", "freeze", "for", "4h"), html})
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "../.././?done=freeze&of=" {
			t.Errorf("%d to %s: %s", w.Code, to, w.Body)
		}
		s.wants("/?done=freeze&of=", "The group is frozen.")
		f.jobs[1].Frozen = &admin.Pause{Since: noon, By: "ops", Reason: "upgrade"}
		time.Sleep(defaultPeriod)
		if page := s.get("/"); !strings.Contains(page, `formaction="api/v1/unfreeze"`) || strings.Contains(page, "api/v1/freeze") {
			t.Errorf("of a frozen group:\n%s", page)
		}
		if w := s.post(sent{"unfreeze", form("confirm", "unfreeze", "missed", "once"), nil}); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"kind":"FreezeResult"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if want := []string{"Freeze  ann (web, 192.0.2.1) because 4h0m0s", "Unfreeze   once"}; !slices.Equal(f.changes, want) {
			t.Errorf("%q, want %q", f.changes, want)
		}
		if page := serve(t, f, Options{}).get("/"); strings.Contains(page, "freeze\"") {
			t.Errorf("without actions:\n%s", page)
		}
	})
}
