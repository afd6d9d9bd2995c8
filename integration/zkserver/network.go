package zkserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// The ports that servers and proxies listen on. They are below the range of Linux's ephemeral ports
// (32768 and up): otherwise a client that reconnects while its server is down could be assigned the
// server's port, and the server could not restart.
const (
	firstPort = 20000
	lastPort  = 29999
)

// listen listens on a free loopback port.
func listen(ctx context.Context) (net.Listener, error) {
	const tries = 100

	var errs error
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := listenOn(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return listener, nil
		}
		errs = errors.Join(errs, err)
	}
	return nil, fmt.Errorf("no free port: %w", errs)
}

func listenOn(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", addr)
}

// freeAddr returns a loopback address that is currently free.
func freeAddr(ctx context.Context) (string, error) {
	listener, err := listen(ctx)
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// dial connects to addr and passes ctx's deadline on to the connection.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// permanentError is an error that must not be retried.
type permanentError struct{ error }

// Unwrap supports [errors.Is].
func (e permanentError) Unwrap() error { return e.error }

// retry calls try until it succeeds, returns a permanentError, or ctx ends. The delay between
// attempts grows from 20 ms to 250 ms.
func retry(ctx context.Context, try func() error) error {
	const first, most = 20 * time.Millisecond, 250 * time.Millisecond

	for wait := first; ; wait = min(2*wait, most) {
		err := try()
		if permanent := (permanentError{}); errors.As(err, &permanent) {
			return permanent.error
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w; last try: %w", ctx.Err(), err)
		}
	}
}
