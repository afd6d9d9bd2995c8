package health_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/health"
)

func ExampleHandler() {
	m, err := singleworker.New(singleworker.Config{Servers: "127.0.0.1:2181", ServerType: "billing"})
	if err != nil {
		fmt.Println(err)
		return
	}
	probes := health.Handler(m) // in a program: http.Handle("/readyz", probes), and m.Run
	for _, path := range []string{"/livez", "/readyz"} {
		answer := httptest.NewRecorder()
		probes.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil)) //nolint:noctx // an example
		fmt.Print(path, ": ", answer.Code, " ", answer.Body)
	}
	// Output:
	// /livez: 200 ok
	// /readyz: 503 Run was not called
}
