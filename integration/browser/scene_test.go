package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/swtest"
	"github.com/swjobs/singleworker/singleworker/web"
)

// scene is a group of three instances with some jobs, and its pages.
type scene struct {
	*testing.T

	cluster   *swtest.Cluster
	client    *admin.Client
	instances map[string]*swtest.Instance
	url       string
}

// hostile is a text that somebody may have put into names and errors.
const hostile = "<img src=x onerror=alert(1)> \x1b[31mred\x1b[0m \u202eesrever </script><script>document.title='owned by eve'</script>"

// hostileName is as much of that as the name of a job may have.
var hostileName = "hostile <b>name<i> & 'quotes' \"\" <script>alert(1)<script> " + strings.Repeat("x", 130)

var handlers = map[string]singleworker.Handler{
	"ok": func(ctx context.Context, _ *singleworker.Run) error {
		select {
		case <-time.After(40 * time.Millisecond):
		case <-ctx.Done():
		}
		return nil
	},
	"slow": func(ctx context.Context, _ *singleworker.Run) error {
		select {
		case <-time.After(4 * time.Second):
		case <-ctx.Done():
		}
		return nil
	},
	"fails": func(context.Context, *singleworker.Run) error {
		return errors.New("dial tcp 10.0.0.9:5432: connection refused\ngoroutine 7 [running]:\nmain.report()")
	},
	"hostile": func(context.Context, *singleworker.Run) error {
		return errors.New(hostile + "\n" + strings.Repeat("4 KiB of it ", 350))
	},
}

// jobs are n jobs, most of which are well.
func jobs(n int) []singleworker.Job {
	teams := []string{"billing", "search", "mail"}
	list := []singleworker.Job{
		{Name: "billing-export", Schedule: "*/2 * * * * ?", Handler: "fails", Labels: map[string]string{"team": "billing"}},
		{Name: "search-reindex", Schedule: "*/5 * * * * ?", Handler: "slow", TimeZone: "Europe/Berlin", Description: "Rebuilds the index from the last dump"},
		{Name: "legacy-sync", Schedule: "0 0 3 * * ?", Handler: "nobody-has-this", TimeZone: "America/New_York"},
	}
	if n > 3 {
		list = append(list, singleworker.Job{Name: hostileName, Schedule: "*/3 * * * * ?", Handler: "hostile"})
		list = append(list, singleworker.Job{Name: "shards", Schedule: "*/4 * * * * ?", Handler: "ok", Shards: 4})
	}
	for i := len(list); i < n; i++ {
		schedules := []string{"*/10 * * * * ?", "0 */5 * * * ?", "0 0 2 ? * SUN", "0 30 * * * ?", "0 15 4 * * ?", "@every 90s"}
		list = append(list, singleworker.Job{
			Name: fmt.Sprintf("%s-task-%03d", teams[i%3], i), Schedule: schedules[i%len(schedules)], Handler: "ok",
			Labels: map[string]string{"team": teams[i%3]},
		})
	}
	return list
}

func newScene(t *testing.T, n int, opts web.Options) *scene {
	t.Helper()
	c := swtest.New(t, swtest.Config{})
	s := &scene{T: t, cluster: c, instances: make(map[string]*swtest.Instance)}
	client, err := admin.Dial(t.Context(), admin.Config{Servers: "zkdev:1", ServerType: swtest.DefaultServerType, Dial: c.Server().Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s.client = client
	for i := range 3 {
		id := fmt.Sprintf("app-%d", i+1)
		s.instances[id] = c.Start(id, handlers)
	}
	for _, job := range jobs(n) {
		if _, err := client.Submit(t.Context(), job, admin.SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if n > 3 {
		if _, err := client.Pause(t.Context(), "shards", admin.PauseOptions{By: "alice@ops", Reason: "migration of the <b>database</b>"}); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := web.Handler(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/admin/jobs/", http.StripPrefix("/admin/jobs", pages))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL + "/admin/jobs/"
	return s
}
