// Package files reads the jobs, calendars and limits that people keep in files, as YAML or JSON,
// writes them, and finds out how a group differs from them. Of each fault it says where it stands:
// file, line and column.
//
// YAML is read by a library, into a tree, and JSON into the same tree. What two readers of YAML
// could take for two things is refused there: see strict. A document of swctl is a job as job.Job's
// JSON has it, a list of jobs, or a JobList or Job as swctl list and swctl show print it. One of
// the kind Calendar is a calendar, as swctl calendars show prints it, and one of the kind Limit a
// limit.
package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Place is a place in a file. Lines and columns count from 1. They are 0 for the whole file.
type Place struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is a fault of a file.
type Problem struct {
	Place

	Message string `json:"message"`
}

func (p Problem) String() string { return p.Place.String() + ": " + p.Message }

// Entry is a job as a file has it.
type Entry struct {
	Place

	Job     job.Job
	Version *int32       // of the job from which the document was made, or nil if it does not tell
	Pause   *admin.Pause // which the file wants, or nil
	Resume  bool         // the file wants the job not to be paused
}

// PauseOptions are the pause that the file wants, if it is not over.
func (e Entry) PauseOptions(now time.Time) *admin.PauseOptions {
	p := e.Pause
	if p == nil || !p.Until.IsZero() && !p.Until.After(now) {
		return nil
	}
	return &admin.PauseOptions{Until: p.Until, By: p.By, Reason: p.Reason, Missed: p.Missed}
}

// MaxFile is how long a file may be, in bytes: ten thousand jobs are a few megabytes.
const MaxFile = 16 << 20

// Contents are the jobs, the calendars and the limits of files, in their order.
type Contents struct {
	Jobs      []Entry
	Calendars []CalendarEntry
	Limits    []LimitEntry
}

// Read reads the jobs, calendars and limits of files, in their order, and checks each of them. A
// directory stands for the files in it, and below it, whose names end in .yaml, .yml or .json.
// Names that begin with a dot are left out. The path "-" is stdin.
func Read(paths []string, stdin io.Reader) (Contents, []Problem) {
	r := reader{names: map[string]Place{}, named: map[string]Place{}}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case path == "-":
			r.open("stdin", stdin, nil)
		case err == nil && info.IsDir():
			r.directory(path)
		default:
			file, err := os.Open(path)
			r.open(path, file, err)
			_ = file.Close()
		}
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.found, r.problems
}

// reader collects the contents of files.
type reader struct {
	file     string // that is read
	found    Contents
	problems []Problem
	names    map[string]Place // of the jobs so far
	named    map[string]Place // of the calendars and limits so far, by kind and name
}

// size is how much was read.
func (r *reader) size() int {
	return len(r.found.Jobs) + len(r.found.Calendars) + len(r.found.Limits) + len(r.problems)
}

func (r *reader) problemf(at Place, format string, args ...any) {
	at.File = plain.OneLine(at.File)
	r.problems = append(r.problems, Problem{at, plain.OneLine(fmt.Sprintf(format, args...))})
}

// once refuses a calendar, or a limit, that is there twice.
func (r *reader) once(kind, name string, place Place) {
	key := kind + " " + name
	if at, ok := r.named[key]; ok && name != "" {
		r.problemf(place, "the %s %s is there twice: it is at %s, too", strings.ToLower(kind), name, at)
	}
	r.named[key] = place
}

var endings = []string{".yaml", ".yml", ".json"}

// directory reads the files of a directory. One without any is a problem: it is likely to be
// another one than is meant.
func (r *reader) directory(path string) {
	root, err := os.OpenRoot(path)
	if err != nil {
		r.problemf(Place{File: path}, "cannot be read: %v", err)
		return
	}
	defer root.Close()
	found := 0
	err = fs.WalkDir(root.FS(), ".", func(at string, entry fs.DirEntry, err error) error {
		hidden := at != "." && strings.HasPrefix(filepath.Base(at), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case entry.IsDir() || hidden || !slices.Contains(endings, filepath.Ext(at)):
			return nil
		}
		found++
		file, err := root.Open(at)
		r.open(filepath.Join(path, at), file, err)
		_ = file.Close()
		return nil
	})
	switch {
	case err != nil:
		r.problemf(Place{File: path}, "cannot be read: %v", err)
	case found == 0:
		r.problemf(Place{File: path}, "has no files that end in %s", strings.Join(endings, ", "))
	}
}

// open reads a file that was opened, unless err says why it was not.
func (r *reader) open(name string, from io.Reader, err error) {
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(from, MaxFile+1))
	}
	if err == nil && len(text) > MaxFile {
		err = fmt.Errorf("has more than %d MiB", MaxFile>>20)
	}
	r.file = name
	if err != nil {
		if failed := new(fs.PathError); errors.As(err, &failed) {
			err = failed.Err // the place has the path
		}
		r.problemf(Place{File: name}, "cannot be read: %v", err)
		return
	}
	parse := parseYAML
	if begin := strings.TrimSpace(string(text[:min(len(text), 512)])); filepath.Ext(name) == ".json" ||
		filepath.Ext(name) != ".yaml" && filepath.Ext(name) != ".yml" && (strings.HasPrefix(begin, "{") || strings.HasPrefix(begin, "[")) {
		parse = parseJSON
	}
	before := r.size()
	documents, fault := parse(text)
	for _, document := range documents {
		r.document(document)
	}
	if fault != nil {
		fault.File = name
		r.problems = append(r.problems, *fault)
	}
	if r.size() == before {
		r.problemf(Place{File: name}, "has no jobs")
	}
}
