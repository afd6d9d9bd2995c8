package instance

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/health"
)

// serveProbes answers the probes of a supervisor at an address until stop is called. It continues
// while the manager stops, so that the supervisor sees an instance that is alive and not ready.
func serveProbes(ctx context.Context, address string, m *singleworker.Manager) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: health.Handler(m), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // ends when the server is closed
	}()
	return func() {
		_ = server.Close() // a probe that is cut off is repeated
		<-ended
	}, nil
}
