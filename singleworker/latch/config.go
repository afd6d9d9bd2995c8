package latch

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// Config configures a Latch. Servers and Path must be set; the zero value of every other
// field means its default.
type Config struct {
	// Servers is ZooKeeper's connect string: "host:port,host:port/chroot". The port defaults to
	// 2181. A missing chroot is created. "file:DIR" is the server for one machine whose data is in
	// that directory.
	Servers string
	// Path is the parent of the contenders' nodes, such as "/billing/leader". All contenders of
	// an election use the same path. It is created if missing and must have no other children.
	Path string

	// ID is a human-readable name of this contender. It need not be unique. Default: host name,
	// process id and four random characters.
	ID string
	// Auth is "user:password" for ZooKeeper's digest scheme. Default: none.
	Auth string
	// ACL is the access control list of the nodes that this contender creates, in the notation of
	// ZooKeeper's shell: "auth::cdrwa,world:anyone:r". Every contender must be able to read the
	// nodes of all others. Default: all permissions for Auth, or for everyone without Auth.
	ACL string
	// TLS secures the connection. Default: plain TCP.
	TLS *tls.Config
	// Dial opens a connection to a server. Default: net.Dialer. An attempt covers name resolution,
	// TLS and ZooKeeper's handshake. Its time limit, after which ctx ends and the next server is
	// tried, is a share of SessionTimeout so that the session survives a hung server:
	// SessionTimeout/(servers+1), at least 1 s and at most 10 s, but never more than a third of
	// SessionTimeout. The share grows the longer the contender has been disconnected.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// SessionTimeout is how long ZooKeeper waits for a silent contender before another one can
	// lead. Servers check once per tick, so it may take a tick longer. A leader that is cut off
	// stops leading within three quarters of it. The server may grant a different value, which is
	// then used. Default 10 s, minimum 1 s, maximum 1 h.
	SessionTimeout time.Duration

	// Hooks are called when leadership is acquired and lost. Default: none.
	Hooks Hooks
	// Logger receives the latch's messages. Default: none.
	Logger *slog.Logger
}

// Hooks are callbacks of the program; each may be nil. They are called one at a time and in order.
// Every OnGained is followed by its OnLost, even if OnGained or Lead's function panics; Run or Lead
// then returns the panic as an error. Hooks may call any method of the Latch, but see
// Await.
type Hooks struct {
	// OnGained is called when a term begins. It should return quickly: until it does, the end of
	// the term is not reported and the contender keeps its place.
	OnGained func(Term)
	// OnLost is called when a term has ended, with the reason: ErrSuspended, ErrExpired, ErrLapsed,
	// ErrDeposed, ErrResigned or ErrStopped. It may wait for work to end: until it returns, the
	// contender keeps its place and starts no other term.
	OnLost func(term Term, cause error)
}

// DefaultSessionTimeout is the default of Config.SessionTimeout.
const DefaultSessionTimeout = 10 * time.Second

const (
	minSessionTimeout = time.Second
	maxSessionTimeout = time.Hour
)

// Format prints the Config without Auth, which is a secret.
func (c Config) Format(f fmt.State, verb rune) {
	type plain Config // has no Format
	c.Auth = zkconn.Hidden(c.Auth)
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(c))
}

// LogValue is the Config as Format prints it.
func (c Config) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", c)) }

// withDefaults sets the fields that are zero.
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
	_, aclErr := zkconn.ParseACL(c.ACL, c.Auth)
	return invalid.First("latch.Config",
		invalid.Check("Servers", c.Servers, serversErr),
		invalid.Check("Servers", c.Servers, zkconn.CheckTLS(c.Servers, c.TLS)),
		invalid.Check("Path", c.Path, election.CheckPath(c.Path)),
		invalid.Check("ID", c.ID, checkID(c.ID)),
		invalid.Check("Auth", zkconn.Hidden(c.Auth), zkconn.CheckAuth(c.Auth)),
		invalid.Check("ACL", c.ACL, aclErr),
		invalid.Check("SessionTimeout", c.SessionTimeout, checkSessionTimeout(c.SessionTimeout)),
	)
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

// defaultID differs between two starts even where process ids repeat, as in containers.
func defaultID() string {
	const randomChars, hostChars = 4, 100
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.*s-%d-%s", hostChars, host, os.Getpid(), uuid.NewString()[:randomChars])
}
