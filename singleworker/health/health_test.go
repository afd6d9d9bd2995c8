package health_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/health"
)

type fixed singleworker.Health

func (f fixed) Health() singleworker.Health { return singleworker.Health(f) }

// get returns the status and the body.
func get(t *testing.T, of singleworker.Health, method, path string) (int, string) {
	t.Helper()
	answer := httptest.NewRecorder()
	health.Handler(fixed(of)).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
	body, err := io.ReadAll(answer.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, strings.TrimSpace(string(body))
}

// The answer to a probe in each state.
func TestProbes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	well := singleworker.Health{
		State: admin.InstanceActive, Session: singleworker.SessionConnected, Since: now.Add(-time.Hour), JobsRead: true,
		LastTurn: now.Add(-time.Second), At: now,
	}
	const ok = "ok"
	for name, row := range map[string]struct {
		change      func(h *singleworker.Health)
		live, ready string
	}{
		"active":      {func(*singleworker.Health) {}, ok, ok},
		"stands by":   {func(h *singleworker.Health) { h.State = admin.InstanceStandby }, ok, ok},
		"draining":    {func(h *singleworker.Health) { h.State = admin.InstanceDraining }, ok, "the instance is draining"},
		"drained":     {func(h *singleworker.Health) { h.State = admin.InstanceDrained }, ok, "the instance is drained"},
		"disabled":    {func(h *singleworker.Health) { h.State = admin.InstanceDisabled }, ok, "the instance is disabled"},
		"stopping":    {func(h *singleworker.Health) { h.State = admin.InstanceStopping }, ok, "the instance is stopping"},
		"joining":     {func(h *singleworker.Health) { h.State = singleworker.InstanceJoining }, ok, "joining the group"},
		"reads":       {func(h *singleworker.Health) { h.JobsRead = false }, ok, "reading the jobs"},
		"not started": {func(h *singleworker.Health) { h.State, h.LastTurn = singleworker.InstanceNotStarted, time.Time{} }, ok, "Run was not called"},
		"ended":       {func(h *singleworker.Health) { h.State = singleworker.InstanceEnded }, "Run has ended", "Run has ended"},
		"no connection yet": {
			func(h *singleworker.Health) {
				h.State, h.Session, h.Since = singleworker.InstanceJoining, singleworker.SessionConnecting, time.Time{}
			}, ok, "not connected to ZooKeeper: the session is connecting",
		},
		"connection lost": {
			func(h *singleworker.Health) {
				h.State, h.Session, h.Since = singleworker.InstanceJoining, singleworker.SessionSuspended, now.Add(-90*time.Second)
			}, ok, "not connected to ZooKeeper: the session is suspended for 1m30s",
		},
		"slow": {func(h *singleworker.Health) { h.LastTurn = now.Add(-time.Minute) }, ok, ok},
		"hangs": {
			func(h *singleworker.Health) { h.LastTurn = now.Add(-61 * time.Second) },
			"the coordinator hangs: it has not worked for 1m1s", "the coordinator hangs: it has not worked for 1m1s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := well
			row.change(&of)
			for path, want := range map[string]string{"/livez": row.live, "/readyz": row.ready} {
				code := http.StatusOK
				if want != ok {
					code = http.StatusServiceUnavailable
				}
				if status, body := get(t, of, http.MethodGet, path); status != code || body != want {
					t.Errorf("%s: %d %q, want %d %q", path, status, body, code, want)
				}
			}
		})
	}
}

// Probes are read, and nothing else is there.
func TestOtherRequests(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		method, path string
		want         int
	}{
		{http.MethodHead, "/livez", http.StatusOK},
		{http.MethodPost, "/livez", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/readyz", http.StatusMethodNotAllowed},
		{http.MethodGet, "/", http.StatusNotFound},
		{http.MethodGet, "/livez/x", http.StatusNotFound},
	} {
		if code, _ := get(t, singleworker.Health{State: singleworker.InstanceNotStarted}, row.method, row.path); code != row.want {
			t.Errorf("%s %s: %d, want %d", row.method, row.path, code, row.want)
		}
	}
}
