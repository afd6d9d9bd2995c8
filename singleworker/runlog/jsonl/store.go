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
	"slices"
	"strings"
	"sync"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// Options configure a Store. The zero value is fine.
type Options struct {
	// MaxBytes is the size beyond which a file is followed by another one. Default 32 MiB, minimum 64 KiB.
	MaxBytes int64
}

const (
	defaultMaxBytes = 32 << 20
	minMaxBytes     = 64 << 10
	dirMode         = 0o750 // errors of handlers are for those who may read logs
	fileMode        = 0o640
	schema          = 1
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

// CorruptError says that a file cannot be read. What can be done about it is to move the file away.
type CorruptError struct {
	Path string
	Line int
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s, line %d: %v; if the machine has crashed, the next writer moves the damaged end away: otherwise move the file away", e.Path, e.Line, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Open returns the Store of a directory, which it creates if it is missing. Nothing is locked before Load.
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

// groupDir is where the log of a group is. No group leads out of the Store's directory.
func (s *Store) groupDir(group string) (string, error) {
	name := url.PathEscape(group)
	if strings.Trim(name, ".") == "" {
		return "", fmt.Errorf("jsonl: %q is not the name of a group", group)
	}
	return filepath.Join(s.dir, name), nil
}

// Load implements runlog.Store. It locks the log until Close; runlog.ErrConflict means that another process has it.
func (s *Store) Load(_ context.Context, group string) (runlog.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, err := s.groupDir(group)
	if err != nil {
		return runlog.State{}, err
	}
	if s.logs[group] == nil {
		lock, err := lockDir(dir)
		if err != nil {
			return runlog.State{}, err
		}
		s.logs[group] = &appender{dir: dir, maxBytes: s.maxBytes, lock: lock}
	}
	return s.logs[group].load()
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
	dir, err := s.groupDir(group)
	if err != nil {
		return 0, err
	}
	for l, err := range linesBackward(dir) {
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

// Entries implements runlog.Store. It reads a file at a time into memory, and none that was last written a day or more before Query.Since.
func (s *Store) Entries(ctx context.Context, q runlog.Query) iter.Seq2[runlog.Entry, error] {
	return func(yield func(runlog.Entry, error) bool) {
		dir, err := s.groupDir(q.Group)
		if err != nil {
			yield(runlog.Entry{}, err)
			return
		}
		n := 0
		seen := make(replaced)
		for l, err := range linesBackward(dir, notBefore(q.Since)) {
			if err == nil {
				err = context.Cause(ctx)
			}
			switch {
			case err != nil:
				yield(runlog.Entry{}, err)
				return
			case l.Seq <= q.After:
				return
			case l.header() || l.Kind == runlog.Mark || seen.has(l.Entry) || !q.Matches(l.Entry):
				continue
			}
			if n++; !yield(l.Entry, nil) || n == q.Limit {
				return
			}
		}
	}
}

// files lists the files of a log, oldest first. A log that does not exist has none.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("jsonl: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(names)
	return names, nil
}
