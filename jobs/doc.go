// Package jobs has ready-made handlers: print a number, print the time, run a
// program, call a URL. Each is one file and serves as an example of a handler.
//
//	err := m.Handle("print-number", jobs.PrintNumber(os.Stdout))
//
// A handler is parameterized by the arguments of the job ([singleworker.Run].Args,
// swctl submit --arg KEY=VALUE). Unknown arguments fail the run, so misspelled
// ones are not ignored.
//
// # Security
//
// Anyone who can write to ZooKeeper can submit a job with any arguments. So
// [Command] and [HTTP] require the application to list the programs and URLs that
// jobs may use. A run that names another one fails with [ErrNotAllowed].
package jobs

import "errors"

// ErrNotAllowed is returned by a run whose job names a program or URL that the
// application does not allow. Such a job is a mistake or an attack.
var ErrNotAllowed = errors.New("not allowed by the application")
