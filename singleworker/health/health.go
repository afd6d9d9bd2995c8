package health

import (
	"net/http"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/health/probe"
)

// Reporter reports the state: a *singleworker.Manager.
type Reporter interface{ Health() singleworker.Health }

// Handler answers GET and HEAD requests for /livez and /readyz, with 200 and "ok", or with 503 and
// the reason, in plain text. The reason names states and durations, no addresses and no jobs. Other
// paths are not found. For another prefix, use http.StripPrefix. Safe for concurrent use.
func Handler(of Reporter) http.Handler {
	return probe.Handler(func() error { return of.Health().Live() }, func() error { return of.Health().Ready() })
}
