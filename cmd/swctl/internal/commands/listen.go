package commands

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
)

const flagListen = "listen"

// listener is a command that other programs connect to.
type listener struct {
	usual  string // address
	anyone string // the flag that it takes to listen where other machines reach it
	known  string // the flag that keeps strangers out, and will do as well, if there is one
	risk   string // what they could do
}

func (l listener) flag() cmdline.Flag {
	return cmdline.Flag{Name: flagListen, Usage: "`ADDRESS` host:port to serve at; port 0 for any that is free (default " + l.usual + ")"}
}

// address reads where the command is to listen.
func (l listener) address(c *cmdline.Call) (string, error) {
	address := l.usual
	if c.Flags.IsSet(flagListen) {
		address = c.Flags.String(flagListen)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", cmdline.Usage("--%s %q: want host:port", flagListen, address).Try("--%s %s", flagListen, l.usual)
	}
	if !isLoopback(host) && !c.Flags.Bool(l.anyone) && (l.known == "" || !c.Flags.IsSet(l.known)) {
		try := ""
		if l.known != "" {
			try = "--" + l.known + " FILE, "
		}
		return "", cmdline.Usage("--%s %s: other machines reach that address, and %s", flagListen, address, l.risk).
			Try("--%s %s, %sor --%s if that is meant", flagListen, l.usual, try, l.anyone)
	}
	return address, nil
}

// isLoopback reports whether only this machine reaches a host.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Limits of a client by HTTP.
const (
	headerTime  = 5 * time.Second
	requestTime = 15 * time.Second
	answerTime  = 45 * time.Second
	idleTime    = 2 * time.Minute
	maxHeader   = 16 << 10
)

// httpServer has those limits. Its requests end with ctx.
func httpServer(ctx context.Context, handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
}
