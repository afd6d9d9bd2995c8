package jsonl

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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
	storetest.Voids(t, open)
	storetest.Prunes(t, open, 600, false)
}

// The end of the newest file is torn off, or followed by something else than a line.
func TestNothingIsLostOrTwice(t *testing.T) {
	t.Parallel()
	for seed := range 6 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			dir, open := opener(t)
			for group, test := range map[string]func(*testing.T, uint64, string, func() runlog.Store, func(*rand.Rand)){
				"billing": storetest.Chaos, "forgotten": storetest.Holes, "restored": storetest.Restores,
			} {
				test(t, uint64(seed), group, open, func(r *rand.Rand) { tear(t, r, filepath.Join(dir, group)) })
			}
		})
	}
}

func tear(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	path := paths[len(paths)-1]
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

// What somebody else has put into a directory that is shared is neither followed nor written to.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	dir, open := opener(t)
	victim, group := filepath.Join(t.TempDir(), "victim"), filepath.Join(dir, "billing")
	line := `{"seq":1,"slot":"stolen","job":"stolen","kind":"run","key":"k","at":"2000-01-01T12:00:00Z"}` + "\n"
	for _, err := range []error{os.WriteFile(victim, []byte(line), 0o600), os.Mkdir(group, dirMode)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	first := filepath.Join(group, "00000000000000000001.jsonl")
	for _, name := range []string{first + ".new", first, first + ".damaged-1"} {
		if err := os.Symlink(victim, name); err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	_, err := s.Load(t.Context(), "billing")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range s.Entries(t.Context(), runlog.Query{Group: "billing"}) {
		t.Errorf("read through a link: %+v, %v", e, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != line {
		t.Errorf("written through a link: %q, %v", text, err)
	}
	if err := os.Symlink(group, filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	if _, err := open().Load(t.Context(), "linked"); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("a directory that is a link: %v", err)
	}
}

// A directory to which everybody may write is not written to; reading does no harm.
func TestSharedDirectoriesAreRefused(t *testing.T) {
	t.Parallel()
	for _, shared := range []string{".", "billing"} {
		dir, open := opener(t)
		if err := os.MkdirAll(filepath.Join(dir, "billing"), dirMode); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, shared)
		if err := os.Chmod(path, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
		if _, err := open().Load(t.Context(), "billing"); err == nil || !strings.Contains(err.Error(), "everybody may write to") {
			t.Errorf("%s: %v", shared, err)
		}
		if seq, err := open().Seq(t.Context(), "billing"); seq != 0 || err != nil {
			t.Errorf("%s: reading: %d, %v", shared, seq, err)
		}
	}
}

// A row that is void does not come back when the line that says so is in a file of which most is
// removed.
func TestPruneKeepsWhatIsVoid(t *testing.T) {
	t.Parallel()
	dir, open := opener(t)
	s := open()
	defer s.Close()
	state, err := s.Load(t.Context(), "billing")
	if err != nil {
		t.Fatal(err)
	}
	appended := func(slot, key string, kind runlog.Kind) {
		t.Helper()
		e := runlog.Entry{Seq: state.Seq + 1, Slot: slot, Job: slot, Incarnation: 1, Key: key, Kind: kind, At: time.Unix(state.Seq, 0).UTC()}
		e.Error = strings.Repeat("x", 1000)
		if err := s.Append(t.Context(), "billing", runlog.Batch{After: state.Seq, Cursor: 1, Entries: []runlog.Entry{e}}); err != nil {
			t.Fatal(err)
		}
		state.Seq++
	}
	const inFile = 70
	appended("a", "tick:1", runlog.NotRun)
	for i := range inFile {
		appended("rare-"+strconv.Itoa(i), "run", runlog.Ran)
	}
	appended("a", "tick:1", runlog.Void)
	for i := range 2 * inFile {
		appended("often", strconv.Itoa(i), runlog.Ran)
	}
	removed, err := s.Prune(t.Context(), "billing", runlog.Retention{PerSlot: 5})
	if names, _ := filepath.Glob(filepath.Join(dir, "billing", "*"+suffix)); err != nil || removed < inFile/2 || len(names) < 3 {
		t.Fatalf("%d lines are removed, %v; files: %q", removed, err, names)
	}
	for e, err := range s.Entries(t.Context(), runlog.Query{Group: "billing", Slot: "a"}) {
		t.Errorf("%+v, %v", e, err)
	}
}
