package zkconn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
)

func TestErrorsAreTranslated(t *testing.T) {
	t.Parallel()
	other := errors.New("zk: something else")
	for _, row := range []struct {
		from, to error
		unknown  bool // it may have been applied
	}{
		{zk.ErrNoNode, ErrNoNode, false},
		{zk.ErrNodeExists, ErrNodeExists, false},
		{zk.ErrBadVersion, ErrBadVersion, false},
		{zk.ErrNotEmpty, ErrNotEmpty, false},
		{zk.ErrNoAuth, ErrDenied, false},
		{zk.ErrAuthFailed, ErrDenied, false},
		{zk.ErrInvalidACL, ErrDenied, false},
		{zk.ErrConnectionClosed, ErrLost, true},
		{zk.ErrSessionExpired, ErrLost, true},
		{zk.ErrClosing, ErrLost, true},
		{zk.ErrNoServer, ErrLost, true},
		{zk.ErrSessionMoved, ErrLost, true},
		{fmt.Errorf("dial: %w", zk.ErrNoServer), ErrLost, true},
		{zk.ErrInvalidPath, zk.ErrInvalidPath, false},
		{zk.ErrBadArguments, zk.ErrBadArguments, false},
		{other, ErrUnclear, true},
		{other, other, true},
		{zk.ErrAPIError, ErrUnclear, true},
	} {
		err := opError("get", "/a", row.from)
		var op *OpError
		if !errors.As(err, &op) || op.Op != "get" || op.Path != "/a" || !errors.Is(err, row.to) {
			t.Errorf("%v becomes %v, want an *OpError that wraps %v", row.from, err, row.to)
		}
		if want := "zookeeper get /a: " + row.to.Error(); !errors.Is(err, ErrUnclear) && err.Error() != want {
			t.Errorf("text %q, want %q", err, want)
		}
		for _, err := range []error{err, &MultiError{Index: 1, Err: err}} {
			if got := IsUnknown(err); got != row.unknown {
				t.Errorf("IsUnknown(%T of %v) = %v, want %v", err, row.from, got, row.unknown)
			}
		}
	}
	if err := opError("get", "/a", nil); err != nil {
		t.Errorf("success becomes %v", err)
	}
}

func TestAbandonedCallsAreUnknown(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if err := (&OpError{Op: "multi", Path: "/a", Err: cause}); !IsUnknown(err) {
			t.Errorf("%v: IsUnknown = false, want true", err)
		}
	}
	if IsUnknown(nil) {
		t.Error("IsUnknown(nil) = true, want false: success is known")
	}
}

func TestMultiErrorNamesTheOperation(t *testing.T) {
	t.Parallel()
	err := error(&MultiError{Index: 3, Err: opError("set", "/a/b", zk.ErrBadVersion)})
	if want := "operation 3: zookeeper set /a/b: version has changed"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	var op *OpError
	if !errors.As(err, &op) || op.Path != "/a/b" || !errors.Is(err, ErrBadVersion) {
		t.Errorf("%#v does not wrap the *OpError of /a/b", err)
	}
}

func TestSizeCoversTheRequest(t *testing.T) {
	t.Parallel()
	const chroot, below = "/a/long/chroot", "/a/path"
	const path = chroot + below
	conn := &Conn{chroot: chroot}
	data := make([]byte, 1000)
	for name, op := range map[string]Op{
		"create": CreateOp(below, data), "ephemeral": CreateEphemeralOp(below, data), "set": SetOp(below, data, 1),
	} {
		if got := conn.Size(op); got < len(path)+len(data) || got > len(path)+len(data)+200 {
			t.Errorf("%s of %d bytes: Size = %d", name, len(path)+len(data), got)
		}
	}
	for name, op := range map[string]Op{"delete": DeleteOp(below, 1), "check": CheckOp(below, 1)} {
		if got := conn.Size(op); got < len(path) || got > len(path)+200 {
			t.Errorf("%s of %d bytes: Size = %d", name, len(path), got)
		}
	}
}
