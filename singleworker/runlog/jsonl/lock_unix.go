//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package jsonl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// lockDir creates the directory of a log and locks it until the file is closed, or the process ends.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("jsonl: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("jsonl: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = runlog.ErrConflict
	case err != nil:
		err = fmt.Errorf("jsonl: lock %s: %w", file.Name(), err)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
