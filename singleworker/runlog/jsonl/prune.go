package jsonl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// Prune implements runlog.Store. It leaves the newest file as it is, and any other one in which
// less than half of the entries are to go. Load must have been called before.
func (s *Store) Prune(_ context.Context, group string, r runlog.Retention) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.logs[group]
	if log == nil {
		return 0, fmt.Errorf("jsonl: prune %s: the log is not loaded", group)
	}
	names, err := files(log.dir)
	if err != nil {
		return 0, err
	}
	p := pruning{dir: log.dir, keep: r, seen: make(replaced), kept: make(map[string]int)}
	removed := 0
	for i, name := range slices.Backward(names) {
		n, err := p.file(name, i == len(names)-1)
		if err != nil {
			return removed, fmt.Errorf("jsonl: %w", err)
		}
		removed += n
	}
	return removed, nil
}

// pruning reads the files of a log, newest first.
type pruning struct {
	dir  *os.Root
	keep runlog.Retention
	seen replaced
	kept map[string]int // by slot
}

// file removes old lines of a file, and returns how many.
func (p *pruning) file(name string, newest bool) (int, error) {
	data, err := p.dir.ReadFile(name)
	if err != nil {
		return 0, err
	}
	rows := splitLines(data)
	keep := make([]bool, len(rows))
	entries, left := 0, 0
	for i := len(rows) - 1; i >= 0; i-- {
		l, err := parse(rows[i])
		if err != nil {
			return 0, &CorruptError{filepath.Join(p.dir.Name(), name), i + 1, err}
		}
		if keep[i] = true; l.header() {
			continue
		}
		entries++
		if keep[i] = p.wanted(l); keep[i] {
			left++
		}
	}
	switch {
	case newest || entries == 0 || left*2 > entries:
		return 0, nil
	case left == 0:
		return entries, p.dir.Remove(name)
	}
	var rest []byte
	for i, row := range rows {
		if keep[i] {
			rest = append(append(rest, row...), '\n')
		}
	}
	made, err := replace(p.dir, name, rest)
	if err != nil {
		return 0, err
	}
	return entries - left, made.Close()
}

func (p *pruning) wanted(l line) bool {
	if p.seen.has(l.Entry) || l.Kind == runlog.Mark || l.At.Before(p.keep.Since) {
		return false
	}
	if l.Kind == runlog.Void { // the line whose place it takes may stay
		return true
	}
	p.kept[l.Slot]++
	return p.keep.PerSlot == 0 || p.kept[l.Slot] <= p.keep.PerSlot
}
