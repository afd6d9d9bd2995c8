package zkconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Sentinels that an *OpError wraps.
var (
	ErrNoNode     = errors.New("no such node")
	ErrNodeExists = errors.New("node exists")
	ErrBadVersion = errors.New("version has changed")
	ErrNotEmpty   = errors.New("node has children")
	ErrDenied     = errors.New("access denied by the node's ACL")
	// ErrLost: the connection broke, or was closed, before the answer came.
	ErrLost = errors.New("connection lost before the answer")
)

// OpError says which operation on which path failed.
type OpError struct {
	Op   string
	Path string
	Err  error
}

func (e *OpError) Error() string { return fmt.Sprintf("zookeeper %s %s: %v", e.Op, e.Path, e.Err) }

func (e *OpError) Unwrap() error { return e.Err }

// IsUnknown reports whether the operation that failed with err may have been
// applied all the same, or may be applied later.
func IsUnknown(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// sentinels translates the library's errors. What is not listed passes as it
// is: a definite answer of the server that nobody branches on.
var sentinels = []struct{ from, to error }{
	{zk.ErrNoNode, ErrNoNode},
	{zk.ErrNodeExists, ErrNodeExists},
	{zk.ErrBadVersion, ErrBadVersion},
	{zk.ErrNotEmpty, ErrNotEmpty},
	{zk.ErrNoAuth, ErrDenied},
	{zk.ErrAuthFailed, ErrDenied},
	{zk.ErrInvalidACL, ErrDenied}, // "auth" entries without valid credentials
	// The request was sent and the answer did not come, or it was still queued:
	// the library does not tell the two apart.
	{zk.ErrConnectionClosed, ErrLost},
	{zk.ErrSessionExpired, ErrLost},
	{zk.ErrClosing, ErrLost},
	{zk.ErrNoServer, ErrLost},
	// Answered by a server that the session has left; the request may already
	// have been on its way to the leader.
	{zk.ErrSessionMoved, ErrLost},
}

func opError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	for _, s := range sentinels {
		if errors.Is(err, s.from) {
			return &OpError{Op: op, Path: path, Err: s.to}
		}
	}
	return &OpError{Op: op, Path: path, Err: err}
}
