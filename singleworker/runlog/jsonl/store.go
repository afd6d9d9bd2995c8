package jsonl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// Options configure a Store. The zero value is fine.
type Options struct {
	// MaxBytes is the size beyond which a file is followed by another one. Default 32 MiB, minimum 64
	// KiB.
	MaxBytes int64
}

const (
	defaultMaxBytes = 32 << 20
	minMaxBytes     = 64 << 10
	dirMode         = 0o750 // errors of handlers are for those who may read logs
	fileMode        = 0o640
	schema          = 2
	suffix          = ".jsonl"
)

// Store keeps logs below a directory.
type Store struct {
	dir      string
	maxBytes int64

	mu   sync.Mutex
	logs map[string]*appender // that this Store writes, by group
}

var _ runlog.Store = (*Store)(nil)

// CorruptError says that a file cannot be read. The remedy is to move the file away.
type CorruptError struct {
	Path string
	Line int
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s, line %d: %v; if the machine has crashed, the next writer moves the damaged end away: otherwise move the file away", e.Path, e.Line, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Open returns the Store of a directory, which it creates if it is missing. Nothing is locked
// before Load.
func Open(dir string, o Options) (*Store, error) {
	if o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes); o.MaxBytes < minMaxBytes {
		return nil, fmt.Errorf("jsonl: Options.MaxBytes is %d, want at least %d", o.MaxBytes, minMaxBytes)
	}
	if dir == "" {
		return nil, errors.New("jsonl: the name of the directory is empty")
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("jsonl: %w", err)
	}
	return &Store{dir: dir, maxBytes: o.MaxBytes, logs: make(map[string]*appender)}, nil
}

// openDir opens the directory in which the log of a group is. Neither a group nor a link leads out
// of the Store's directory. The writer creates missing ones, and wants both to be its own.
func (s *Store) openDir(group string, writes bool) (*os.Root, error) {
	name := url.PathEscape(group)
	if strings.Trim(name, ".") == "" {
		return nil, fmt.Errorf("jsonl: %q is not the name of a group", group)
	}
	store, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("jsonl: %w", err)
	}
	defer store.Close()
	if writes {
		err = s.prepare(store, name)
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = store.Lstat(name); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory: remove it", filepath.Join(s.dir, name))
		}
	}
	var dir *os.Root
	if err == nil {
		dir, err = store.OpenRoot(name)
	}
	if err != nil {
		return nil, fmt.Errorf("jsonl: %w", err)
	}
	return dir, nil
}

// prepare creates the directory of a log if it is missing, and checks whose it is.
func (s *Store) prepare(store *os.Root, name string) error {
	if err := store.Mkdir(name, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, path := range []string{".", name} {
		info, err := store.Lstat(path)
		if err == nil {
			err = checkOwner(filepath.Join(s.dir, path), info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Load implements runlog.Store. It locks the log until Close; runlog.ErrConflict means that another
// process has it. It refuses a directory that everybody may write to, and one that belongs to
// another user than root and the process's.
func (s *Store) Load(_ context.Context, group string) (runlog.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs[group] == nil {
		dir, err := s.openDir(group, true)
		if err != nil {
			return runlog.State{}, err
		}
		lock, err := lockDir(dir)
		if err != nil {
			return runlog.State{}, errors.Join(err, dir.Close())
		}
		s.logs[group] = &appender{dir: dir, group: url.PathEscape(group), maxBytes: s.maxBytes, lock: lock}
	}
	return s.logs[group].load()
}

// checkOwner wants a directory to belong to root or to this process's user, and nobody else to
// write there: who does could have the log written elsewhere, or forge it.
func checkOwner(path string, info fs.FileInfo) error {
	const everybody = 0o002
	if owner := ownerOf(info); owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user, number %d: use a directory of your own", path, owner)
	}
	if info.IsDir() && info.Mode()&everybody != 0 {
		return fmt.Errorf("everybody may write to %s: use a directory of your own, or chmod o-w", path)
	}
	return nil
}

// Append implements runlog.Store. Load must have been called before.
func (s *Store) Append(_ context.Context, group string, b runlog.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if log := s.logs[group]; log != nil {
		return log.append(b)
	}
	return fmt.Errorf("jsonl: append to %s: the log is not loaded", group)
}

// Seq implements runlog.Store.
func (s *Store) Seq(_ context.Context, group string) (int64, error) {
	for l, err := range s.linesBackward(group) {
		if err != nil {
			return 0, err
		}
		return l.Seq, nil
	}
	return 0, nil
}

// Close ends the writing, and releases the locks.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for group, log := range s.logs {
		errs = append(errs, log.close())
		delete(s.logs, group)
	}
	return errors.Join(errs...)
}

// Entries implements runlog.Store. It reads a file at a time into memory, and none that was last
// written a day or more before Query.Since.
func (s *Store) Entries(ctx context.Context, q runlog.Query) iter.Seq2[runlog.Entry, error] {
	return func(yield func(runlog.Entry, error) bool) {
		n := 0
		seen := make(replaced)
		for l, err := range s.linesBackward(q.Group, notBefore(q.Since)) {
			if err == nil {
				err = context.Cause(ctx)
			}
			switch {
			case err != nil:
				yield(runlog.Entry{}, err)
				return
			case l.Seq <= q.After:
				return
			case l.header() || seen.has(l.Entry) || l.Kind == runlog.Mark || l.Kind == runlog.Void || !q.Matches(l.Entry):
				continue
			}
			if n++; !yield(l.Entry, nil) || n == q.Limit {
				return
			}
		}
	}
}

// files lists the names of the files of a log, oldest first, without links.
func files(dir *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("jsonl: %s: %w", dir.Name(), err)
	}
	var names []string
	for _, e := range entries { // by name
		if strings.HasSuffix(e.Name(), suffix) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
