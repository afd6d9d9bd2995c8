package zkdev

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

var (
	errNoTLS   = errors.New("the client speaks no TLS, and this server nothing else")
	errMute    = fmt.Errorf("no TLS handshake within %v: the client may speak no TLS", connectTimeout)
	errOnlyTLS = errors.New("the client speaks TLS, and this server does not")
)

// clientHello is how a client that speaks TLS begins: with the record of a handshake, of version
// 3.1 for the sake of servers that know no later one.
const clientHello = 0x160301

// bare returns a connection without its TLS.
func bare(nc net.Conn) net.Conn {
	if secured, ok := nc.(*tls.Conn); ok {
		return secured.NetConn()
	}
	return nc
}

// secure makes the TLS handshake, if there is to be one. It returns false if that has failed.
func (c *conn) secure(l *life) bool {
	secured, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	err := secured.HandshakeContext(ctx)
	switch bad := (tls.RecordHeaderError{}); {
	case err == nil:
		return true
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed): // a probe that only connects, or the server stops
		return false
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		err = errMute
	case errors.As(err, &bad):
		err = errNoTLS
	default:
		err = fmt.Errorf("TLS handshake: %w", err)
	}
	l.do(func(k *core) { k.report(c.nc, c.session, err) })
	// A connection is reset if it is closed with something unread, and the alert that tells the client
	// the reason would be lost. So it is left to the client to close it.
	if half, ok := bare(c.nc).(*net.TCPConn); ok {
		_ = half.CloseWrite()
		_, _ = io.Copy(io.Discard, half)
	}
	return false
}
