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
	"github.com/swjobs/singleworker/singleworker/zkdev"
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
	const apart = 20 // of the signs of life meanwhile, and of a reading at the end of a period
	if one == 0 || hundred > one+apart {
		t.Errorf("%d requests for one viewer, %d for a hundred", one, hundred)
	}
	t.Logf("%d requests for one viewer, %d for a hundred", one, hundred)
}

// A reader pays for requests, not for readings: one who asks for the largest jobs again and again
// costs no more than one who asks for small ones. Who looks at one of them is never refused.
func TestLargeReadingsAreNotFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		large := []string{"a", "b", "c"}
		for _, name := range large {
			c.Submit(singleworker.Job{Name: name, Schedule: "@hourly", Handler: "nobody", Shards: 400})
		}
		client, err := admin.Dial(t.Context(), admin.Config{Servers: "zkdev:1", ServerType: swtest.DefaultServerType, Dial: c.Server().Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		pages, err := web.Handler(client, web.Options{})
		if err != nil {
			t.Fatal(err)
		}
		const seconds = 200
		look := func(address string, names ...string) (sent, refused int, took time.Duration) {
			before, began := c.Server().Traffic().Requests[zkdev.OpMultiRead], time.Now()
			for range seconds {
				for _, name := range names {
					w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/jobs/"+name+"/ticks", nil)
					r.RemoteAddr = address
					pages.ServeHTTP(w, r)
					if w.Code != http.StatusOK {
						refused++
					}
				}
				time.Sleep(time.Second)
			}
			return c.Server().Traffic().Requests[zkdev.OpMultiRead] - before, refused, time.Since(began)
		}
		if sent, refused, took := look("198.51.100.1:1", large[0]); sent < 3*seconds || refused > 0 || took > seconds*time.Second {
			t.Errorf("one large job, looked at for %v: %d requests, %d refused", took, sent, refused)
		}
		sent, _, took := look("198.51.100.2:1", large...)
		if most := 120 + int(took/(150*time.Millisecond)) + 100; sent > most || sent < most/2 {
			t.Errorf("%d requests in %v, want at most %d", sent, took, most)
		}
	})
}
