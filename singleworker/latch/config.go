package latch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Config configures a Latch. Servers and Path must be set; the zero value of every other
// field means its default.
type Config struct {
	// Servers is ZooKeeper's connect string: "host:port,host:port/chroot".
	// The port is 2181 by default; the chroot is created when it is absent.
	Servers string
	// Path is the node below which the contenders of one election have theirs:
	// "/billing/leader". It is created when it is absent. Nothing else may be
	// below it.
	Path string

	// ID names this contender, for people. It need not be unique. Default: host
	// name, process id and four random characters.
	ID string
	// Auth is "user:password" for ZooKeeper's digest scheme. Default: none.
	Auth string
	// ACL is the access control list of the nodes that this contender creates,
	// in the notation of ZooKeeper's shell: "auth::cdrwa,world:anyone:r".
	// Every contender must be able to read them all.
	// Default: everything for Auth, or for anybody when there is no Auth.
	ACL string
	// TLS secures the connection. Default: plain TCP.
	TLS *tls.Config
	// Dial opens the connection to a server. Default: net.Dialer. An attempt, with
	// the lookup of the name, TLS and ZooKeeper's handshake, has a share of
	// SessionTimeout, so that the session outlives a server that hangs: a third with
	// one or two servers, a quarter with three, and so on, but at least 1 s where a
	// third is that much; more, the longer there has been no connection; never
	// more than 10 s. Then ctx ends, and the next server is tried.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// SessionTimeout is how long ZooKeeper waits for a silent contender before
	// another one may lead; the server may grant another value, which then
	// counts. Servers look once a tick, so it may be a tick more. A leader that is
	// cut off stops leading after three quarters of it at the latest.
	// Default 10 s, at least 1 s, at most 1 h.
	SessionTimeout time.Duration

	// Hooks are told of leadership gained and lost. Default: none.
	Hooks Hooks
	// Logger gets the latch's messages. Default: none.
	Logger *slog.Logger
}

// Hooks are functions of the program that are told what happens; each may be nil. They are
// called one at a time, in order: OnLost follows its OnGained, also when that, or Lead's
// function, panics, which ends Run or Lead with the panic. They may call any method of the
// Latch; but see Await.
type Hooks struct {
	// OnGained is called when a term has begun. It should return soon: until it has,
	// the end of the term is not reported, nor the place given up.
	OnGained func(Term)
	// OnLost is called when a term has ended, with the reason: ErrSuspended,
	// ErrExpired, ErrLapsed, ErrDeposed, ErrResigned or ErrStopped. The place is not
	// given up, and no further term begins here, before OnLost has returned; it may
	// wait for work to end.
	OnLost func(term Term, cause error)
}

// DefaultSessionTimeout is that of a Config that sets none.
const DefaultSessionTimeout = 10 * time.Second

const (
	minSessionTimeout = time.Second
	maxSessionTimeout = time.Hour
)

// ConfigError refuses a field of a Config.
type ConfigError struct {
	Field string // such as "SessionTimeout"
	Value any
	Err   error // what is wrong with it, and what would be right
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("latch: %s %q: %v", e.Field, fmt.Sprint(e.Value), e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// withDefaults fills in what was not set.
func (c Config) withDefaults() Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.ID = cmp.Or(c.ID, defaultID())
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate checks every field.
func (c Config) validate() error {
	_, _, serversErr := zkconn.ParseServers(c.Servers)
	_, aclErr := zkconn.ParseACL(c.ACL, c.Auth != "")
	for _, check := range []ConfigError{
		{"Servers", c.Servers, serversErr},
		{"Path", c.Path, checkPath(c.Path)},
		{"ID", c.ID, checkID(c.ID)},
		{"Auth", "(not shown)", zkconn.CheckAuth(c.Auth)},
		{"ACL", c.ACL, aclErr},
		{"SessionTimeout", c.SessionTimeout, checkSessionTimeout(c.SessionTimeout)},
	} {
		if check.Err != nil {
			return &check
		}
	}
	return nil
}

func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") || path == "/" {
		return errors.New(`want an absolute path below the root, such as "/billing/leader"`)
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, unfit) {
			return fmt.Errorf("%q is not a node name", part)
		}
	}
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return errors.New("is ZooKeeper's own")
	}
	return nil
}

// unfit reports whether a rune cannot be in the name of a node, or should not be.
func unfit(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

func checkID(id string) error {
	const most = 1000
	if len(id) > most {
		return fmt.Errorf("want at most %d bytes", most)
	}
	return nil
}

func checkSessionTimeout(d time.Duration) error {
	if d < minSessionTimeout || d > maxSessionTimeout {
		return fmt.Errorf("want %v to %v", minSessionTimeout, maxSessionTimeout)
	}
	return nil
}

// defaultID is readable, and differs between two starts even where process ids repeat, as
// in containers.
func defaultID() string {
	const randomChars, hostChars = 4, 100
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.*s-%d-%s", hostChars, host, os.Getpid(), uuid.NewString()[:randomChars])
}
