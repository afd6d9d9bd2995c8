package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/swtest"
	"github.com/swjobs/singleworker/singleworker/web"
)

// asOf is where a page says when it was read, and by which clock.
var asOf = regexp.MustCompile(`as of .*`)

// Pages of a machine whose clock is wrong show the group as other machines' pages do, and say that
// the clock is wrong.
func TestPagesOfAMachineWhoseClockIsWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		for _, name := range []string{"report", "lost"} {
			c.Submit(singleworker.Job{Name: name, Schedule: "0 0 * * * ?", Handler: name})
		}
		c.Start("app-1", map[string]singleworker.Handler{"report": func(context.Context, *singleworker.Run) error { return nil }})
		c.AwaitOwned("report")
		pages := make(map[time.Duration]http.Handler)
		for _, off := range []time.Duration{0, -10 * time.Minute, 10 * time.Minute} {
			ctx := wall.Off(t.Context(), func() time.Duration { return off })
			client, err := admin.Dial(ctx, admin.Config{Servers: "zkdev:1", ServerType: swtest.DefaultServerType, Dial: c.Server().Dial})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if pages[off], err = web.Handler(client, web.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		hour := time.Now().Truncate(time.Hour).Add(time.Hour)
		for _, at := range []time.Duration{-5 * time.Minute, 5 * time.Minute, 55 * time.Minute, 65 * time.Minute} {
			time.Sleep(time.Until(hour.Add(at + 300*time.Millisecond))) // not at the turn of a second
			for _, h := range pages {                                   // which may wait for a heartbeat
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			}
			for _, path := range []string{"/", "/jobs", "/job?name=lost", "/job?name=report", "/owners", "/calendar", "/api/v1/jobs", "/api/v1/jobs/report/ticks"} {
				text := make(map[time.Duration]string)
				for off, h := range pages {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
					text[off] = w.Body.String()
				}
				for off, note := range map[time.Duration]string{-10 * time.Minute: " behind the group&#39;s; times", 10 * time.Minute: " ahead of the group&#39;s; times"} {
					if page := !strings.HasPrefix(path, "/api"); page != strings.Contains(text[off], note) {
						t.Errorf("%s of a machine whose clock is off by %v says so: %v", path, off, !page)
					}
					got, want := strings.Split(asOf.ReplaceAllString(text[off], ""), "\n"), strings.Split(asOf.ReplaceAllString(text[0], ""), "\n")
					for k := range want {
						if len(got) != len(want) || got[k] != want[k] {
							t.Fatalf("%v: %s of a machine whose clock is off by %v, %d lines:\n%s\nwant %d lines:\n%s", at, path, off, len(got), got[k], len(want), want[k])
						}
					}
				}
			}
		}
	})
}

// Where no heartbeats tell the group's time, pages say that they go by the machine's clock.
func TestPagesOfAGroupInWhichNobodyOwnsAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		c.Submit(singleworker.Job{Name: "report", Schedule: "0 0 * * * ?"})
		client, err := admin.Dial(t.Context(), admin.Config{Servers: "zkdev:1", ServerType: swtest.DefaultServerType, Dial: c.Server().Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		h, err := web.Handler(client, web.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/jobs", nil))
		const want = "times are by the clock of the machine that serves this page"
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("it does not say that %s:\n%s", want, w.Body.String())
		}
	})
}
