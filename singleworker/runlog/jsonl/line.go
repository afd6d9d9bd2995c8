package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// line is a line of a file: an entry, or the header of the file.
type line struct {
	runlog.Entry

	// Cursor is the batch's, in its last line.
	Cursor int64 `json:"cursor,omitempty"`

	// Of a header.
	Schema    int                        `json:"schema,omitempty"`
	Group     string                     `json:"group,omitempty"`
	Positions map[string]runlog.Position `json:"positions,omitempty"`
}

// header reports whether the line is the first of a file. Its Seq is the last before the file.
func (l line) header() bool { return l.Schema != 0 }

func (l line) encode() ([]byte, error) {
	data, err := json.Marshal(l)
	return append(data, '\n'), err
}

func parse(data []byte) (l line, err error) {
	if err := json.Unmarshal(data, &l); err != nil {
		return line{}, err
	}
	switch {
	case l.Schema > schema:
		return line{}, &runlog.SchemaError{Found: l.Schema, Known: schema}
	case l.header() && l.Schema < schema:
		return line{}, errors.New("was written by a version before the first release, whose logs cannot be continued")
	case l.Kind == "" && !l.header():
		return line{}, errors.New("is no entry")
	}
	return l, nil
}

// notBefore excludes files that were last written long before a time. A day is more than clocks
// differ.
func notBefore(since time.Time) func(fs.FileInfo) bool {
	return func(info fs.FileInfo) bool { return since.IsZero() || info.ModTime().After(since.Add(-24*time.Hour)) }
}

// linesBackward yields the lines of a log, the last first. What follows the last end of a line is
// still being written. A log that does not exist has none.
func (s *Store) linesBackward(group string, want ...func(fs.FileInfo) bool) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		var names []string
		dir, err := s.openDir(group, false)
		if err == nil {
			defer dir.Close()
			names, err = files(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(line{}, err)
			return
		}
		for _, name := range slices.Backward(names) {
			data, err := readFile(dir, name, want)
			if err != nil {
				yield(line{}, fmt.Errorf("jsonl: %w", err))
				return
			}
			for i, row := range slices.Backward(splitLines(data)) {
				l, err := parse(row)
				if err != nil {
					err = &CorruptError{filepath.Join(dir.Name(), name), i + 1, err}
				}
				if !yield(l, err) || err != nil {
					return
				}
			}
		}
	}
}

// splitLines leaves out what follows the last end of a line.
func splitLines(data []byte) [][]byte {
	rows := bytes.Split(data, []byte{'\n'})
	return rows[:len(rows)-1]
}

// readFile reads a file that is wanted, and still there.
func readFile(dir *os.Root, name string, want []func(fs.FileInfo) bool) ([]byte, error) {
	info, err := dir.Stat(name)
	for _, wanted := range want {
		if err == nil && !wanted(info) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, ignoreMissing(err)
	}
	data, err := dir.ReadFile(name)
	return data, ignoreMissing(err)
}

// ignoreMissing is for files that were pruned meanwhile.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// replaced has the entries that count instead of former ones, while lines are read backward.
type replaced map[identity]struct{}

type identity struct {
	slot        string
	incarnation int64
	key         string
}

// has reports whether a later line counts instead of this one.
func (r replaced) has(e runlog.Entry) bool {
	id := identity{e.Slot, e.Incarnation, e.Key}
	_, is := r[id]
	if e.Kind == runlog.NotRun || e.Kind == runlog.Void || e.Amended { // there may be a former one
		r[id] = struct{}{}
	}
	return is
}
