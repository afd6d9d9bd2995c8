package health

import (
	"net/http"

	"github.com/swjobs/singleworker/singleworker"
)

// Reporter reports the state: a *singleworker.Manager.
type Reporter interface{ Health() singleworker.Health }

// Handler answers GET and HEAD requests for /livez and /readyz, with 200 and "ok", or with 503 and
// the reason, in plain text. The reason names states and durations, no addresses and no jobs. Other
// paths are not found. For another prefix, use http.StripPrefix. Safe for concurrent use.
func Handler(of Reporter) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", answer(func() error { return of.Health().Live() }))
	mux.HandleFunc("GET /readyz", answer(func() error { return of.Health().Ready() }))
	return mux
}

// answer writes the result of ask.
func answer(ask func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if err := ask(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // the client may be gone
	}
}
