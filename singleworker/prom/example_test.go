package prom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/prom"
)

func ExampleNewCollector() {
	m, err := singleworker.New(singleworker.Config{Servers: "127.0.0.1:2181", ServerType: "billing"})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.NewCollector(m))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // in a program: http.Handle("/metrics", handler), and m.Run
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil)) //nolint:noctx // an example
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "singleworker_slots_owned") {
			fmt.Print(line)
		}
	}
	// Output: singleworker_slots_owned{server_type="billing"} 0
}
