package jsonl

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/storetest"
)

// opener opens stores of one directory, with files that are soon full.
func opener(t *testing.T) (dir string, open func() runlog.Store) {
	t.Helper()
	dir = t.TempDir()
	return dir, func() runlog.Store {
		s, err := Open(dir, Options{MaxBytes: minMaxBytes})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	_, open := opener(t)
	storetest.Contract(t, open)
	storetest.Prunes(t, open, 600, false)
}

// The end of the newest file is torn off, or followed by what is no line.
func TestNothingIsLostOrTwice(t *testing.T) {
	t.Parallel()
	for seed := range 6 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			dir, open := opener(t)
			storetest.Chaos(t, uint64(seed), "billing", open, func(r *rand.Rand) {
				paths, err := files(filepath.Join(dir, "billing"))
				if err != nil || len(paths) == 0 {
					t.Fatal(paths, err)
				}
				tear(t, r, paths[len(paths)-1])
			})
		})
	}
}

func tear(t *testing.T, r *rand.Rand, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := splitLines(data)
	last := len(rows[len(rows)-1]) + 1
	switch damage := r.IntN(4); {
	case damage < 2:
		data = append(data, `{"seq":12,"sl`...)
	case damage == 2:
		data = append(data, make([]byte, 100)...)
		data = append(data, '\n')
	case len(rows) > 1:
		data = data[:len(data)-r.IntN(last)]
	}
	if err := os.WriteFile(path, data, fileMode); err != nil {
		t.Fatal(err)
	}
}

func TestHoles(t *testing.T) {
	t.Parallel()
	for seed := range 2 {
		_, open := opener(t)
		storetest.Holes(t, uint64(seed), "billing", open)
	}
}
