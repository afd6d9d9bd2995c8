// Package probe answers the probes of a supervisor, such as Kubernetes, over HTTP. Package health
// does so for an instance, and swctl serve for its server.
package probe

import "net/http"

// Handler answers GET and HEAD requests for /livez and /readyz, with 200 and "ok" if live, or
// ready, returns nil, or with 503 and its error, in plain text. Other paths are not found. For
// another prefix, use http.StripPrefix. It is safe for concurrent use if they are.
func Handler(live, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", answer(live))
	mux.HandleFunc("GET /readyz", answer(ready))
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
