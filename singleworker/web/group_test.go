package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/swtest"
	"github.com/swjobs/singleworker/singleworker/web"
)

// requests counts a group's requests to ZooKeeper in six seconds with some viewers, of whom each
// looks at three pages a second.
func requests(t *testing.T, viewers int) (n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		done := func(context.Context, *singleworker.Run) error { return nil }
		for _, name := range []string{"report", "import", "sweep"} {
			c.Submit(singleworker.Job{Name: name, Schedule: "@hourly", Handler: "work"})
		}
		c.Start("app-1", map[string]singleworker.Handler{"work": done})
		c.AwaitOwned("report", "import", "sweep")
		client, err := admin.Dial(t.Context(), admin.Config{Servers: "zkdev:1", ServerType: swtest.DefaultServerType, Dial: c.Server().Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		pages, err := web.Handler(client, web.Options{})
		if err != nil {
			t.Fatal(err)
		}
		total := func() (n int) {
			for _, of := range c.Server().Traffic().Requests {
				n += of
			}
			return n
		}
		time.Sleep(6 * time.Second)
		before := total()
		time.Sleep(6 * time.Second)
		rest := total() - before
		before = total()
		for range 6 {
			for range viewers {
				for path, want := range map[string]string{"/": "Nothing needs attention", "/job?name=report": "app-1", "/api/v1/jobs": `"name":"sweep"`} {
					go func() {
						w := httptest.NewRecorder()
						pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
						if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
							t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
						}
					}()
				}
			}
			time.Sleep(time.Second)
		}
		n = total() - before - rest
	})
	return n
}

// A hundred viewers cost ZooKeeper as much as one.
func TestViewersShareRequests(t *testing.T) {
	t.Parallel()
	one, hundred := requests(t, 1), requests(t, 100)
	if one == 0 || hundred > one+one/4 {
		t.Errorf("%d requests for one viewer, %d for a hundred", one, hundred)
	}
	t.Logf("%d requests for one viewer, %d for a hundred", one, hundred)
}
