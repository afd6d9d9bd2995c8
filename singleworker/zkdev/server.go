package zkdev

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Errors of a Server.
var (
	// ErrStopped is returned when a client dials while the server is stopped.
	ErrStopped = errors.New("zkdev: server is stopped")

	// ErrRunning is returned by Start when the server is running.
	ErrRunning = errors.New("zkdev: server is already running")

	// ErrNoSession is returned by ExpireSession when the session has ended or never existed.
	ErrNoSession = errors.New("zkdev: no such session")
)

// A Server is a ZooKeeper server for development and tests. It is safe for concurrent use, but
// functions passed to Control must not call it: that would deadlock.
type Server struct {
	config Config

	mu      sync.Mutex
	addr    string             // guarded by mu; "" before the first start
	life    *life              // guarded by mu; nil before the first start
	clients map[string]*Client // guarded by mu

	core *core // owned by life until that ends, else guarded by mu
}

// New checks the configuration and returns a stopped server. The error is an *invalid.FieldError,
// or one of Config.Store.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, core: newCore(config, time.Now()), clients: map[string]*Client{}}
	if config.Store != nil {
		if err := s.core.recover(config.Store); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Start starts the server. It accepts clients when Start returns. After a Stop it continues with
// its nodes and sessions; see Restart.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil && !s.life.isOver() {
		return ErrRunning
	}
	listeners, err := s.listen()
	if err != nil {
		return err
	}
	s.core.start(time.Now())
	s.life = newLife(s.core, listeners...)
	s.config.Logger.Warn("server started", "addr", s.addr, "notice", s.core.notice())
	return nil
}

// Stop stops the server like a crash: connections break without notice. Nodes and sessions are kept
// for a restart, and no session expires while the server is stopped. When Stop returns, all its
// goroutines have ended. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	if life == nil {
		return
	}
	life.end()
	s.config.Logger.Info("server stopped")
}

// RestartMode is the fate of sessions in a Restart.
type RestartMode int

const (
	// KeepSessions restarts every session's timeout: clients that reconnect within it keep their
	// session, as with ZooKeeper.
	KeepSessions RestartMode = iota

	// DropSessions ends all sessions and deletes their ephemeral nodes.
	DropSessions
)

// Restart stops the server, if it is running, and starts it on the same address with the same
// nodes. Watches are lost with the connections, as in ZooKeeper; controls and partitions stay.
func (s *Server) Restart(mode RestartMode) error {
	s.Stop()
	if mode == DropSessions {
		s.do(func(c *core) { c.dropSessions(time.Now()) })
	}
	return s.Start()
}

// SetMaxSession changes Config.MaxSession for sessions that are opened or resumed from now on, like
// a server with another configuration to which a client reconnects.
func (s *Server) SetMaxSession(longest time.Duration) {
	s.do(func(c *core) { c.config.MaxSession = max(longest, c.config.MinSession) })
}

// SetClock sets how far the server's clock is ahead; negative: behind. That is the clock of the
// server that leads: it goes into the times of nodes that are written from then on, and into
// nothing else.
func (s *Server) SetClock(ahead time.Duration) { s.do(func(k *core) { k.state.Ahead = ahead }) }

// Addr returns the host:port that the server listens on, even while it is stopped. It is empty
// before the first start and with Config.NoListen.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Dial opens an in-process connection; network and address are ignored. The connection has buffers
// and deadlines like a socket.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return s.dial(ctx, nil)
}

// DialTimeout is Dial with the signature that some clients expect, such as go-zookeeper's
// WithDialer.
func (s *Server) DialTimeout(_, _ string, timeout time.Duration) (net.Conn, error) {
	return dialTimeout(s, nil, timeout)
}

func dialTimeout(s *Server, client *Client, timeout time.Duration) (net.Conn, error) {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return s.dial(ctx, client)
}

func (s *Server) dial(ctx context.Context, client *Client) (net.Conn, error) {
	if err := client.passable(ctx); err != nil {
		return nil, dialError(err)
	}
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	near, far := newPipe(client.label(), "zkdev", client.latency())
	if life == nil || !life.serve(far, client) {
		return nil, dialError(ErrStopped)
	}
	return near, nil
}

func dialError(err error) error {
	return &net.OpError{Op: "dial", Net: pipeAddr("").Network(), Addr: pipeAddr("zkdev"), Err: err}
}

// do calls f with exclusive access to core, whether or not the server is running.
func (s *Server) do(f func(*core)) {
	for {
		s.mu.Lock()
		life := s.life
		if life == nil || life.isOver() {
			defer s.mu.Unlock()
			f(s.core)
			return
		}
		s.mu.Unlock()
		if life.do(f) {
			return
		}
	}
}

// TB is the part of testing.TB that Start needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Start starts a server that is stopped when the test ends. It fails the test if the server
// cannot start. Tests in a testing/synctest bubble need Config{NoListen: true}.
func Start(tb TB, config Config) *Server {
	tb.Helper()
	server, err := New(config)
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		tb.Fatalf("zkdev: %v", err)
		return nil // for a TB whose Fatalf returns
	}
	tb.Cleanup(server.Stop)
	return server
}
