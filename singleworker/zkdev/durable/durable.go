package durable

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Errors of Open and Err.
var (
	// ErrInUse is returned by Open when another process serves the directory.
	ErrInUse = errors.New("another process serves the directory")

	// ErrDamaged is returned by Open for files that no crash leaves like that. Restore a backup.
	ErrDamaged = errors.New("the files are damaged, or some are missing")

	// ErrCompressed is returned by Open for compressed snapshots.
	ErrCompressed = errors.New("the snapshot is compressed: let a ZooKeeper with snapshot.compression.method= start and stop on the directory first")

	// ErrFull is returned by Err when the disk is full.
	ErrFull = errors.New("the disk is full: free some space, then start again")
)

// A Config configures a server.
type Config struct {
	// Dir is the directory of the data, which is created if it does not exist. The files are in
	// version-2 below it.
	Dir string

	// Listen is the TCP address to listen on; port 0 picks a free one. Beyond loopback, whoever can
	// reach it can take part in sessions: their passwords can be guessed, as ZooKeeper's can. TLS
	// with client certificates keeps others out. Default 127.0.0.1:2181.
	Listen string

	// TLS secures the connections to Listen, with at least TLS 1.2: Certificates, and ClientCAs with
	// ClientAuth to know the clients. Those by "file:DIR" are as they are. Default: plain TCP.
	TLS *tls.Config

	// NoListen opens no port, for a program that brings its server along. Clients of the same user
	// on this machine connect to "file:" and Dir, which they can in any case: the manager of the
	// program, and swctl. Listen is then ignored. Default: false.
	NoListen bool

	// Logger receives starts, stops, the recovery, protocol errors of clients, steps of the clock,
	// and why the server has stopped. Default: none.
	Logger *slog.Logger
}

// The session timeouts that the server grants, and how often it looks for those that have passed.
const (
	tick       = 500 * time.Millisecond
	minSession = time.Second
	maxSession = time.Minute
)

const defaultListen = "127.0.0.1:2181"

const (
	// socketPath is the socket's below the directory: where clients of "file:DIR" look for it.
	socketPath = "version-2/socket"

	// maxSocketPath is the length that each system allows.
	maxSocketPath = 103
)

// A Server is a ZooKeeper server that keeps its data in files. It is safe for concurrent use.
type Server struct {
	server *zkdev.Server
	store  *store
	lock   io.Closer
	closed atomic.Bool
}

// Open locks the directory, reads it, and starts a server. It serves when Open returns. Sessions go
// on: their timeouts begin anew. It returns ErrInUse, ErrDamaged, ErrCompressed, or an error of the
// file system or the network.
func Open(config Config) (*Server, error) {
	dir := filepath.Join(config.Dir, "version-2")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	locked, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	socket, err := socketIn(config)
	var s *Server
	if err == nil {
		s, err = open(config, directory(dir), socket)
	}
	if err != nil {
		return nil, errors.Join(err, locked.Close())
	}
	s.lock = locked
	return s, nil
}

// socketIn returns the path of the socket, which is empty if it would be too long and is not all
// that there is. It removes the one that a crash has left.
func socketIn(config Config) (path string, err error) {
	path = filepath.Join(config.Dir, filepath.FromSlash(socketPath))
	switch err := os.Remove(path); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", err
	case len(path) <= maxSocketPath:
		return path, nil
	case config.NoListen:
		return "", fmt.Errorf("%s: the path of a socket has at most %d bytes", path, maxSocketPath)
	}
	config.Logger.Warn("no socket for clients on this machine: its path would be too long", "path", path, "limit", maxSocketPath)
	return "", nil
}

func open(config Config, fs fileSystem, socket string) (*Server, error) {
	if config.Listen == "" {
		config.Listen = defaultListen
	}
	s := &Server{store: newStore(fs, config.Logger)}
	const none = -1
	server, err := zkdev.New(zkdev.Config{
		Listen: config.Listen, TLS: config.TLS, NoListen: config.NoListen, Socket: socket, Store: s.store, Logger: config.Logger, KeepLog: none,
		Tick: tick, MinSession: minSession, MaxSession: maxSession,
	})
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	s.server = server
	return s, nil
}

// Addr returns the host:port that the server listens on. It is empty with Config.NoListen.
func (s *Server) Addr() string { return s.server.Addr() }

// Failed returns a channel that is closed when the server has stopped by itself, because it could
// not write. Err says why.
func (s *Server) Failed() <-chan struct{} { return s.store.failed }

// Err returns why the server has stopped by itself, or nil.
func (s *Server) Err() error {
	if err := s.store.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Ready returns nil, or why the server acknowledges nothing now: it has stopped by itself, it is
// closed, or a write has taken longer than 5 s.
func (s *Server) Ready() error {
	if s.closed.Load() {
		return errors.New("the server is closed")
	}
	return s.store.ready()
}

// Close stops the server and unlocks the directory. Sessions stay alive, for a server that is
// opened within their timeouts.
func (s *Server) Close() error {
	s.closed.Store(true)
	s.server.Stop()
	return errors.Join(s.store.close(), s.lock.Close())
}
