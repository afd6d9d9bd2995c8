package zkdev

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// The ports that a server on port 0 picks from. They are below the range of Linux's ephemeral
// ports: otherwise a client that reconnects while the server is stopped could be assigned the
// server's port.
const (
	firstPort = 20000
	lastPort  = 29999
	portTries = 100
)

// listen listens on the address that the server had before, if any, and on the socket. The caller
// holds mu.
func (s *Server) listen() (listeners []net.Listener, err error) {
	if !s.config.NoListen {
		addr := s.config.Listen
		if s.addr != "" {
			addr = s.addr
		}
		listener, err := listenOn(addr)
		if err != nil {
			return nil, fmt.Errorf("zkdev: %w", err)
		}
		s.addr = listener.Addr().String()
		if s.config.TLS != nil {
			listener = tls.NewListener(listener, s.config.TLS)
		}
		listeners = append(listeners, listener)
	}
	if s.config.Socket != "" {
		listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", s.config.Socket)
		if err == nil {
			listeners = append(listeners, listener)
			err = os.Chmod(s.config.Socket, 0o600)
		}
		if err != nil {
			for _, listener := range listeners {
				_ = listener.Close()
			}
			return nil, fmt.Errorf("zkdev: %w", err)
		}
	}
	return listeners, nil
}

func listenOn(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	if port == "0" {
		for range portTries {
			port := firstPort + rand.IntN(lastPort-firstPort+1)
			listener, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err == nil {
				return listener, nil
			}
		}
	}
	return config.Listen(context.Background(), "tcp", addr)
}
