// Package jobs has ready-made handlers: print a number, print the time, run a
// program, call a URL. Each is one file, and shows how to write one's own.
//
//	err := m.Handle("print-number", jobs.PrintNumber(os.Stdout))
//
// A handler gets what it needs from the arguments of the job ([singleworker.Run].Args,
// swctl submit --arg KEY=VALUE). An argument that it does not know fails the
// run: a misspelt one is never ignored.
//
// # Who decides what may be done
//
// Whoever can write to ZooKeeper can submit a job, with any arguments. So
// [Command] and [HTTP] do nothing that the application has not allowed in its
// code: they take a list of the programs and of the URLs that jobs may name,
// they refuse to be made without one, and a run that names another fails with
// [ErrNotAllowed].
package jobs

import "errors"

// ErrNotAllowed is in the error of a run whose job names a program or a URL
// that the application does not allow. Such a job is a mistake, or an attempt.
var ErrNotAllowed = errors.New("not allowed by the application")
