package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/web"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The pages are mounted in an application's own server, below a path. They change nothing, as
// AllowActions is off.
func ExampleHandler() {
	server, err := zkdev.New(zkdev.Config{}) // a program has ZooKeeper
	check(err)
	check(server.Start())
	defer server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := admin.Dial(ctx, admin.Config{Servers: server.Addr(), ServerType: "billing"})
	check(err)
	defer client.Close()
	_, err = client.Submit(ctx, job.Job{Name: "report", Schedule: "@daily"}, admin.SubmitOptions{})
	check(err)

	pages, err := web.Handler(client, web.Options{Title: "billing"})
	check(err)
	mux := http.NewServeMux()
	mux.Handle("/jobs/", http.StripPrefix("/jobs", pages))
	site := httptest.NewServer(mux)
	defer site.Close()

	for _, path := range []string{"/jobs/", "/jobs/api/v1/jobs", "/jobs/nothing"} {
		answer, err := http.Get(site.URL + path) //nolint:noctx // an example
		check(err)
		check(answer.Body.Close())
		fmt.Println(path, answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	// Output:
	// /jobs/ 200 text/html; charset=utf-8
	// /jobs/api/v1/jobs 200 application/json
	// /jobs/nothing 404 text/plain; charset=utf-8
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
