package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Sentinels that an *OpError wraps, but for ErrTLS.
var (
	ErrNoNode     = errors.New("no such node")
	ErrNodeExists = errors.New("node exists")
	ErrBadVersion = errors.New("version has changed")
	ErrNotEmpty   = errors.New("node has children")
	ErrDenied     = errors.New("access denied by the node's ACL")
	// ErrTooLong is returned for data, or a list of children, of more than 8 MiB, which is not read.
	ErrTooLong = errors.New("the node's data or list of children is too long")
	// ErrTLS is returned when a server accepts a connection, and they do not agree on TLS.
	ErrTLS = errors.New("TLS handshake")
	// ErrLost is returned when the connection was lost or closed before the reply arrived.
	ErrLost = errors.New("connection lost before the answer")
	// ErrClosed is returned by calls before Open and after Close, and by those that Close has ended.
	ErrClosed = errors.New("the connection to ZooKeeper is not open")
	// ErrUnclear is returned when the server's answer does not say whether the operation was applied:
	// a code that is not known to (throttled, quota exceeded, request timeout, ...), or a reply that
	// cannot be decoded.
	ErrUnclear = errors.New("the server did not say whether it was applied")
	// ErrReadOnly is returned for changes by a server that has lost its quorum, see Config.ReadOnly.
	// It is an ErrUnavailable.
	ErrReadOnly error = readOnlyError{}
)

type readOnlyError struct{}

func (readOnlyError) Error() string { return "the server is read-only, because it has lost its quorum" }

// Is reports whether the target is ErrUnavailable.
func (readOnlyError) Is(target error) bool { return target == ErrUnavailable }

// OpError is the error of an operation on a path.
type OpError struct {
	Op   string
	Path string
	Err  error
}

func (e *OpError) Error() string { return fmt.Sprintf("zookeeper %s %s: %v", e.Op, e.Path, e.Err) }

func (e *OpError) Unwrap() error { return e.Err }

// IsUnknown reports whether the operation that failed with err may have been applied nevertheless,
// or may still be applied.
func IsUnknown(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrUnclear) || errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// sentinels translates the library's errors that callers distinguish.
var sentinels = []struct{ from, to error }{
	{zk.ErrNoNode, ErrNoNode},
	{zk.ErrNodeExists, ErrNodeExists},
	{zk.ErrBadVersion, ErrBadVersion},
	{zk.ErrNotEmpty, ErrNotEmpty},
	{zk.ErrNoAuth, ErrDenied},
	{zk.ErrAuthFailed, ErrDenied},
	{zk.ErrReconfigDisabled, ErrReadOnly}, // see codeNotReadOnly
	{zk.ErrInvalidACL, ErrDenied},         // "auth" entries without valid credentials
	// The request was sent without a reply, or was still queued: the library does not distinguish.
	{zk.ErrConnectionClosed, ErrLost},
	{zk.ErrSessionExpired, ErrLost},
	{zk.ErrClosing, ErrLost},
	{zk.ErrNoServer, ErrLost},
	// From a server that the session has left; the request may already have reached the leader.
	{zk.ErrSessionMoved, ErrLost},
}

// definite are further errors that prove that nothing was applied. No caller distinguishes them.
var definite = []error{
	zk.ErrNoChildrenForEphemerals, zk.ErrInvalidFlags, zk.ErrBadArguments,
	zk.ErrInvalidPath, // refused by the library, before anything is sent
	context.Canceled, context.DeadlineExceeded,
}

// Operations whose answer can be ErrTooLong.
const (
	opNameChildren = "children"
	opNameBulk     = "read many"
)

// Operations that need another permission than to read.
const (
	OpNameCreate = "create"
	OpNameDelete = "delete"
	OpNameSet    = "set"
	OpNameSetACL = "setACL"
)

// opError wraps err. Only an error that is known to be an answer is one: any other error is
// ErrUnclear.
func opError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if (op == opNameChildren || op == opNameBulk) && errors.Is(err, zk.ErrNothing) {
		return &OpError{Op: op, Path: path, Err: ErrTooLong}
	}
	for _, s := range sentinels {
		if errors.Is(err, s.from) {
			return &OpError{Op: op, Path: path, Err: s.to}
		}
	}
	if !slices.ContainsFunc(definite, func(known error) bool { return errors.Is(err, known) }) {
		err = fmt.Errorf("%w: %w", ErrUnclear, err)
	}
	return &OpError{Op: op, Path: path, Err: err}
}
