//go:build !(linux || darwin || freebsd)

package main

import (
	"context"
	"errors"
)

// ward needs processes as Unix has them.
type ward struct{ alone bool }

func startWard(context.Context, *call, string) (*ward, error) {
	return nil, errors.New("guard needs process groups and signals: use Linux, macOS or FreeBSD")
}

func (*ward) pid() int        { return 0 }
func (*ward) wait()           {}
func (*ward) killRest() error { return nil }
func (*ward) code() exitCode  { return exitInternal }
func (*ward) String() string  { return "" }
func (*ward) close()          {}
func exists(int) bool         { return true }

func (*ward) untilSignal(parent context.Context) (context.Context, func()) {
	return parent, func() {}
}
