package session

import (
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ReadError makes an error in reading or parsing a node of a job a *zkrec.UnreadableError, unless
// it may pass by itself (the answer is not known) or the node does not exist.
func ReadError(path string, err error) error {
	if err == nil || zkconn.IsUnknown(err) || errors.Is(err, zkconn.ErrNoNode) {
		return err
	}
	return &zkrec.UnreadableError{Path: path, Err: err}
}
