package durable

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
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
	// reach it can take part in sessions: their passwords can be guessed, as ZooKeeper's can.
	// Default 127.0.0.1:2181.
	Listen string

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

// A Server is a ZooKeeper server that keeps its data in files. It is safe for concurrent use.
type Server struct {
	server *zkdev.Server
	store  *store
	lock   io.Closer
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
	s, err := open(config, directory(dir))
	if err != nil {
		return nil, errors.Join(err, locked.Close())
	}
	s.lock = locked
	return s, nil
}

func open(config Config, fs fileSystem) (*Server, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Listen == "" {
		config.Listen = defaultListen
	}
	s := &Server{store: newStore(fs, config.Logger)}
	const none = -1
	server, err := zkdev.New(zkdev.Config{
		Listen: config.Listen, Store: s.store, Logger: config.Logger, KeepLog: none,
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

// Addr returns the host:port that the server listens on.
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

// Close stops the server and unlocks the directory. Sessions stay alive, for a server that is
// opened within their timeouts.
func (s *Server) Close() error {
	s.server.Stop()
	return errors.Join(s.store.close(), s.lock.Close())
}
