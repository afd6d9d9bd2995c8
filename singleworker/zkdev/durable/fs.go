package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// A fileSystem is one directory of a file system. Tests have one that crashes.
type fileSystem interface {
	list() ([]string, error)
	open(name string) (io.ReadCloser, error)
	create(name string) (file, error) // fails if it exists
	truncate(name string, size int64) error
	sync(name string) error // the content of a file; the directory's if there is no name
	rename(from, to string) error
	remove(name string) error
}

// A file is written from its beginning to its end.
type file interface {
	io.Writer
	extend(size int64) error // with zeros, which are overwritten
	sync() error
	Close() error
}

// osFile is one of the operating system.
type osFile struct{ *os.File }

func (f osFile) extend(size int64) error { return f.Truncate(size) }

func (f osFile) sync() error { return flush(f.File) }

// directory is one of the operating system.
type directory string

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) list() (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (d directory) open(name string) (io.ReadCloser, error) { return os.Open(d.path(name)) }

func (d directory) create(name string) (file, error) {
	f, err := os.OpenFile(d.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return osFile{f}, err
}

func (d directory) truncate(name string, size int64) error { return os.Truncate(d.path(name), size) }

func (d directory) sync(name string) error {
	f, err := os.Open(d.path(name))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d directory) rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d directory) remove(name string) error { return os.Remove(d.path(name)) }

// explain says more of some errors.
func explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errors.Join(ErrFull, err)
	}
	return err
}
