package zkdev

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
)

const (
	defaultListen = "127.0.0.1:0"
	defaultTick   = 500 * time.Millisecond
	defaultLog    = 1_000_000
)

// A Config configures a server. The zero Config is valid.
type Config struct {
	// Listen is the TCP address to listen on. It must be a loopback address, unless there is a
	// Store; port 0 picks a free port. Default 127.0.0.1:0.
	Listen string

	// Store keeps the transactions. Default: none, and the server forgets everything.
	Store Store

	// TLS secures the connections to Listen, with at least TLS 1.2. Those by Socket and Dial are as
	// they are. Default: plain TCP.
	TLS *tls.Config

	// NoListen opens no port: clients connect with Dial, or by Socket. Listen is then ignored. Tests
	// in a testing/synctest bubble need it.
	NoListen bool

	// Socket is the path of a Unix socket to listen on as well, of which there must be no file. Only
	// the user that the process runs as can connect. Default: none.
	Socket string

	// Tick is the interval at which sessions expire: a session ends at the first tick after its
	// timeout. Default 500ms.
	Tick time.Duration

	// MinSession and MaxSession bound the session timeouts that the server grants.
	// Defaults: 2 and 20 ticks, as in ZooKeeper.
	MinSession, MaxSession time.Duration

	// KeepLog is how many of the latest transactions Log returns. Default one million; -1 keeps
	// none.
	KeepLog int

	// Logger receives starts, stops, protocol errors of clients, and failures to accept
	// connections. Default: none.
	Logger *slog.Logger
}

// withDefaults sets the fields that are zero and checks all of them.
func (c Config) withDefaults() (Config, error) {
	if c.Listen == "" && !c.NoListen {
		c.Listen = defaultListen
	}
	if c.Tick == 0 {
		c.Tick = defaultTick
	}
	if c.MinSession == 0 {
		c.MinSession = 2 * c.Tick
	}
	if c.MaxSession == 0 {
		c.MaxSession = max(20*c.Tick, c.MinSession)
	}
	if c.KeepLog == 0 {
		c.KeepLog = defaultLog
	}
	if c.TLS != nil {
		c.TLS = c.TLS.Clone()
		c.TLS.MinVersion = max(c.TLS.MinVersion, tls.VersionTLS12)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	const longest = math.MaxInt32 * time.Millisecond // the limit of the protocol
	for _, rule := range []struct {
		broken bool
		field  string
		value  any
		want   string
	}{
		{!c.NoListen && c.Store == nil && !loopback(c.Listen), "Listen", c.Listen, "a loopback IP address with a port: this server is for development"},
		{c.Tick < time.Millisecond || c.Tick > time.Hour, "Tick", c.Tick, "1ms to 1h"},
		{c.MinSession < time.Millisecond, "MinSession", c.MinSession, "at least 1ms"},
		{c.MaxSession < c.MinSession, "MaxSession", c.MaxSession, fmt.Sprintf("at least MinSession (%v)", c.MinSession)},
		{c.MaxSession > longest, "MaxSession", c.MaxSession, fmt.Sprintf("at most %v", longest)},
		{c.KeepLog < -1, "KeepLog", c.KeepLog, "-1 or more"},
	} {
		if rule.broken {
			return Config{}, &invalid.FieldError{Of: "zkdev.Config", Field: rule.field, Value: fmt.Sprint(rule.value), Err: errors.New("want " + rule.want)}
		}
	}
	return c, nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
