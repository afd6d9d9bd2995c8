package zkdev

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Errors that a caller may have to tell apart.
var (
	// ErrStopped says that the server does not run.
	ErrStopped = errors.New("zkdev: server is stopped")

	// ErrRunning says that the server runs already.
	ErrRunning = errors.New("zkdev: server is running")

	// ErrNoSession says that a session is over, or never was.
	ErrNoSession = errors.New("zkdev: no such session")
)

// A Server is a ZooKeeper server for development and tests. All methods are safe for
// concurrent use, except from functions given to Control, where they would wait for
// themselves.
type Server struct {
	config Config

	mu      sync.Mutex
	addr    string             // guarded by mu; once it has listened
	life    *life              // guarded by mu; nil before the first start
	clients map[string]*Client // guarded by mu

	core *core // owned by life while that has not ended, else guarded by mu
}

// New checks a configuration. It starts nothing.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{config: config, core: newCore(config, time.Now()), clients: map[string]*Client{}}, nil
}

// Start starts the server; it serves when Start returns. After a Stop, it starts with
// what it knew: see Restart.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil && !s.life.isOver() {
		return ErrRunning
	}
	var listener net.Listener
	if !s.config.NoListen {
		var err error
		if listener, err = s.listen(); err != nil {
			return err
		}
	}
	s.core.start(time.Now())
	s.life = newLife(s.core, listener)
	s.config.Logger.Warn("zkdev started: a server for development and tests, never for production; "+
		"it keeps everything in memory and forgets it", "addr", s.addr)
	return nil
}

// Stop ends the server as a crash would: connections break, and nothing is told to
// anybody. What it knows is kept for a restart; no session expires meanwhile.
// When Stop returns, none of its goroutines run. Stopping a server that does not run
// does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	if life == nil {
		return
	}
	life.end()
	s.config.Logger.Info("zkdev stopped")
}

// RestartMode says what Restart does with sessions.
type RestartMode int

const (
	// KeepSessions restarts every session's timeout: clients that reconnect within it keep their
	// session, as with ZooKeeper.
	KeepSessions RestartMode = iota

	// DropSessions ends all sessions and deletes their ephemeral nodes.
	DropSessions
)

// Restart stops the server, if it runs, and starts it again on the same address with
// the same tree. Watches are gone with the connections, as in ZooKeeper; controls
// and partitions stay.
func (s *Server) Restart(mode RestartMode) error {
	s.Stop()
	if mode == DropSessions {
		s.do(func(c *core) { c.dropSessions(time.Now()) })
	}
	return s.Start()
}

// Addr is the host:port that the server listens on, also while it is stopped. It is
// empty before the first start, and with NoListen.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Dial connects in the process, whatever the network and address. The connection
// has buffers and deadlines like a socket's.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return s.dial(ctx, nil)
}

// DialTimeout is Dial in the form that some clients take, such as go-zookeeper's WithDialer.
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

// do runs f where core may be touched, and returns when it has run. It never blocks
// on a server that has stopped.
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
