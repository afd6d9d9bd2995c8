package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/access"
	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// Config says where the group's records are.
type Config struct {
	// Servers is ZooKeeper's connect string: "host:port,host:port/chroot", or "file:DIR", as
	// singleworker.Config.Servers says.
	Servers string
	// ServerType names the group of instances.
	ServerType string
	// Auth is "user:password" for ZooKeeper's digest scheme. Default: none.
	Auth string
	// ACL of the nodes that are created, in the notation of ZooKeeper's shell. A group with roles
	// (Client.SetRoles) has its own. Default: the ACL of the group's root if that exists; otherwise
	// all permissions for Auth, or for anyone if Auth is empty. A root that anyone may change,
	// although Auth is set, is no default: see OnOpenACL.
	ACL string
	// TLS secures the connection. Default: plain TCP.
	TLS *tls.Config
	// Dial opens the connection to a server. Default: net.Dialer. An attempt to
	// connect has a share of SessionTimeout, as singleworker.Config.Dial says.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// From says from where changes come, in the log of who did what. Default: Self.
	From string
	// SessionTimeout is requested from the server. Default 10 s.
	SessionTimeout time.Duration
	// OnTrouble is called once if no server has answered Dial within a second, with how each server
	// stands. If it returns an error, so does Dial. Default: none, and Dial tries until its context
	// ends.
	OnTrouble func(*ServersError) error
	// OnOpenACL is called by Dial if anyone may change the group's root, although Auth is set and ACL
	// is not, with an error that says how to mend that. The Client reads and changes what there is,
	// and what would create a node fails with ErrOpenACL. Default: none.
	OnOpenACL func(err error)
	// OnRead is called while a method reads many nodes, such as List, after some of the server's
	// answers, with how many nodes the Client has read in such methods. It must not block. Default:
	// none.
	OnRead func(nodes int)
	// AllowStale has Dial take a server that has lost its quorum and serves reads nevertheless, as
	// ZooKeeper does from 3.7 on with readonlymode.enabled, if no other answers within a second. The
	// Client reads old records, see Client.Stale, and a change is an ErrUnavailable. Default: false.
	AllowStale bool
	// Logger gets the client's messages. Default: none.
	Logger *slog.Logger
}

const (
	defaultSessionTimeout = 10 * time.Second
	troubleAfter          = time.Second
)

// Client works on one group's records. Safe for concurrent use.
type Client struct {
	editor

	servers []string // the addresses of all, of which the Client may use some
	close   func()
}

// Dial connects and returns when a server has answered. The nodes that the client creates
// have the ACL of cfg. The caller must Close it. Errors: *invalid.FieldError, ErrDenied,
// ErrUnavailable if ctx is done first, which is a *ServersError if that is later than a second.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = defaultSessionTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := cfg.open(ctx, false)
	if err != nil {
		return nil, err
	}
	err = cfg.greetSoon(ctx, c.reader)
	if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
		trouble := &ServersError{askServers(ctx, c.conn, c.servers)}
		old, staleErr := cfg.openStale(ctx, trouble)
		if !errors.Is(staleErr, ErrUnavailable) {
			c.Close()
			return old, staleErr
		}
		err = cfg.insist(ctx, c.reader, trouble)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// open returns a Client before a server has answered.
func (cfg Config) open(ctx context.Context, readOnly bool) (*Client, error) {
	conn, err := zkconn.New(zkconn.Config{
		Servers: cfg.Servers, SessionTimeout: cfg.SessionTimeout, Auth: cfg.Auth,
		ACL: cfg.ACL, TLS: cfg.TLS, Dial: cfg.Dial, Logger: cfg.Logger, ReadOnly: readOnly,
	})
	if err != nil {
		return nil, err
	}
	if err := conn.Open(nil); err != nil {
		return nil, err
	}
	c := newClient(conn, cfg.ServerType, cfg.From)
	c.close, c.clock.wall = conn.Close, wall.Of(ctx)
	if cfg.OnRead != nil {
		var nodes atomic.Int64
		c.heard = func(more int) { cfg.OnRead(int(nodes.Add(int64(more)))) }
	}
	return c, nil
}

// openStale is Dial for the servers that only serve reads, if cfg allows that and no other serves
// requests. Otherwise it returns the trouble.
func (cfg Config) openStale(ctx context.Context, trouble *ServersError) (*Client, error) {
	var readOnly []string
	for _, s := range trouble.Servers {
		if s.readsWell() {
			readOnly = append(readOnly, s.Address)
		}
	}
	if !cfg.AllowStale || trouble.Any(ServerServing) || len(readOnly) == 0 {
		return nil, trouble
	}
	all, chroot, err := zkconn.ParseServers(cfg.Servers)
	if err != nil {
		return nil, err
	}
	cfg.Servers = strings.Join(readOnly, ",") + chroot
	c, err := cfg.open(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := cfg.greetSoon(ctx, c.reader); err != nil {
		c.Close()
		return nil, err
	}
	c.servers = all
	return c, nil
}

// A Manager is a *singleworker.Manager. What is in it is for On alone.
type Manager interface {
	Session() (conn *zkconn.Conn, serverType, from string)
}

// On returns what operators do, for the group of a Manager and on its session: handlers and other
// parts of an application trigger, edit, cancel, list and watch jobs with it. In the log of
// actions they come from the instance: "app-1 (v1.4.0)". It asks nobody, and need not be
// closed. Keep it for many calls: a new Client first finds out the group's time.
//
// Before Manager.Run was called and after it has ended, the methods return
// singleworker.ErrNotRunning. When Run ends, those that are under way return it, too, and the text
// of the error says if a change may have been made nevertheless. A method that is called while the
// Manager's session is lost waits for the next one until its context is done.
//
// Its reads and writes share the Manager's connection: a List of thousands of jobs delays the
// claims of runs by some milliseconds. A handler that cancels its own job, or stops its own run,
// has its context end.
func On(m Manager) *Client { return newClient(m.Session()) }

func newClient(conn *zkconn.Conn, serverType, from string) *Client {
	rd := reader{conn: conn, tree: zkrec.NewTree(serverType), heard: func(int) {}}
	return &Client{editor{observer{members{rd, newClock()}}, writer{rd, from}, new(listing.Room)}, conn.Addresses(), func() {}}
}

// greetSoon is greet for a second.
func (cfg Config) greetSoon(ctx context.Context, rd reader) error {
	soon, cancel := context.WithTimeout(ctx, troubleAfter)
	defer cancel()
	return cfg.greet(soon, rd)
}

// greet returns when a server has answered.
func (cfg Config) greet(ctx context.Context, rd reader) error {
	roles, err := access.Follow(ctx, rd.conn, rd.tree)
	if err != nil || roles {
		return err
	}
	err = rd.conn.Retry(ctx, func() error {
		if cfg.ACL == "" {
			return rd.conn.InheritACL(ctx, rd.tree.Root())
		}
		_, _, err := rd.conn.Exists(ctx, rd.tree.Root())
		return err
	})
	if errors.Is(err, ErrOpenACL) {
		if cfg.OnOpenACL != nil {
			cfg.OnOpenACL(err)
		}
		return nil
	}
	return err
}

// insist is greet when no server has answered at first.
func (cfg Config) insist(ctx context.Context, rd reader, trouble *ServersError) error {
	if cfg.OnTrouble != nil {
		if err := cfg.OnTrouble(trouble); err != nil {
			return err
		}
	}
	err := cfg.greet(ctx, rd)
	if errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w; at first: %w", err, trouble)
	}
	return err
}

// Clock returns the group's time as of the Client's latest reading of jobs, and how far this
// machine's clock is ahead of it (negative: behind): zero unless it is certain that the two differ,
// and then exact to within a few seconds. Late, due and paused are meant by the group's time. It
// sends no request. Without signs of life, of instances, this machine's clock is all there is: then
// own is true.
func (c *Client) Clock() (now time.Time, ahead time.Duration, own bool) {
	at := c.clock.now()
	return at.now, at.ahead, at.own
}

// Stale reports whether a server that had lost its quorum has answered the Client, which then read
// records as they were when that was lost. Then sign is the last sign of life before that, by
// ZooKeeper's clock, of an instance that lived, if one was read. It needs Config.AllowStale.
func (c *Client) Stale() (sign time.Time, stale bool) {
	return c.clock.lastSign(), c.conn.Stale()
}

// Close ends the connection and all calls in progress. It leaves the session of a Manager alone.
// Idempotent.
func (c *Client) Close() { c.close() }

// Format prints the Config without Auth, which is a secret.
func (cfg Config) Format(f fmt.State, verb rune) {
	type plain Config // has no Format
	cfg.Auth = zkconn.Hidden(cfg.Auth)
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(cfg))
}

// LogValue is the Config as Format prints it.
func (cfg Config) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", cfg)) }

// Validate returns an *invalid.FieldError that names the first field that cannot be used.
func (cfg Config) Validate() error {
	_, _, serversErr := zkconn.ParseServers(cfg.Servers)
	_, aclErr := zkconn.ParseACL(cfg.ACL, cfg.Auth)
	return invalid.First("admin.Config",
		invalid.Check("Servers", cfg.Servers, serversErr),
		invalid.Check("Servers", cfg.Servers, zkconn.CheckTLS(cfg.Servers, cfg.TLS)),
		invalid.Check("ServerType", cfg.ServerType, zkrec.CheckServerType(cfg.ServerType)),
		invalid.Check("Auth", zkconn.Hidden(cfg.Auth), zkconn.CheckAuth(cfg.Auth)),
		invalid.Check("ACL", cfg.ACL, aclErr),
	)
}

// Zxid is the last of ZooKeeper's transactions that a server has told the Client of, since it was
// connected last. It sends no request. Fencing tokens that are given later are larger.
func (c *Client) Zxid() int64 { return c.conn.Zxid() }
