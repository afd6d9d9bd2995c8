//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package jsonl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// ownerOf is the number of the user to whom a file belongs.
func ownerOf(info fs.FileInfo) int {
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return os.Geteuid()
	}
	return int(of.Uid)
}

// lockDir locks the directory of a log until the file is closed, or the process ends.
func lockDir(dir *os.Root) (*os.File, error) {
	file, err := dir.OpenFile("lock", os.O_CREATE|os.O_RDWR, fileMode)
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
