package api

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// The codes of errors of package admin, in ErrorBody.Code. swctl help exit-codes explains
// each.
const (
	CodeInvalid     = "invalid"
	CodeNotFound    = "not_found"
	CodeConflict    = "conflict"
	CodeUnavailable = "unavailable"
	CodeDenied      = "denied"
	CodeTimeout     = "timeout"
	CodeInternal    = "internal"
)

// codes are those of sentinels. The first that an error is counts: if no server answered, that the
// time ran out as well is the consequence.
var codes = []struct {
	err  error
	code string
}{
	{admin.ErrNotFound, CodeNotFound},
	{admin.ErrNoShard, CodeNotFound},
	{admin.ErrNoInstance, CodeNotFound},
	{admin.ErrNoRoles, CodeNotFound},
	{admin.ErrNoVersion, CodeNotFound},
	{admin.ErrNoCalendar, CodeNotFound},
	{admin.ErrNoLimit, CodeNotFound},
	{admin.ErrNoGroup, CodeNotFound},
	{admin.ErrInUse, CodeConflict},
	{admin.ErrExists, CodeConflict},
	{admin.ErrUnreadable, CodeConflict},
	{admin.ErrNoHandler, CodeConflict},
	{admin.ErrBusy, CodeConflict},
	{admin.ErrNotRunning, CodeConflict},
	{admin.ErrTickDone, CodeConflict},
	{admin.ErrTickOpen, CodeConflict},
	{admin.ErrConflict, CodeConflict},
	{admin.ErrNotDraining, CodeConflict},
	{admin.ErrFull, CodeConflict},
	{admin.ErrTooLarge, CodeConflict},
	{admin.ErrInstancesLive, CodeConflict},
	{admin.ErrCutOff, CodeConflict},
	{admin.ErrTooLong, CodeConflict},
	{admin.ErrDenied, CodeDenied},
	{admin.ErrOpenACL, CodeDenied},
	{admin.ErrUnavailable, CodeUnavailable},
	{context.DeadlineExceeded, CodeTimeout},
}

// CodeOf is the code of an error of package admin; CodeInternal if it has none.
func CodeOf(err error) string {
	if errors.As(err, new(*invalid.FieldError)) {
		return CodeInvalid // trying again will not help
	}
	for _, known := range codes {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return CodeInternal
}
