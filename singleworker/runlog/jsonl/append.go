package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// appender writes the log of a group.
type appender struct {
	dir      *os.Root
	group    string // as the name of the directory
	maxBytes int64
	lock     *os.File

	file  *os.File // the newest; nil before load, and after an error
	size  int64    // of what counts
	state runlog.State
}

// load reads the newest file: its header, and what follows from its lines.
func (a *appender) load() (runlog.State, error) {
	a.closeFile()
	names, err := files(a.dir)
	if err != nil {
		return runlog.State{}, err
	}
	a.state = runlog.State{Positions: make(map[string]runlog.Position)}
	if len(names) > 0 {
		err = a.resume(names[len(names)-1])
	} else {
		err = a.rotate()
	}
	if err != nil {
		return runlog.State{}, fmt.Errorf("jsonl: %w", err)
	}
	state := a.state
	state.Positions = maps.Clone(state.Positions)
	return state, nil
}

// resume continues a file. What follows its last good line is moved to another one.
func (a *appender) resume(name string) error {
	path := filepath.Join(a.dir.Name(), name)
	data, err := a.dir.ReadFile(name)
	if err != nil {
		return err
	}
	good := 0
	for number := 1; ; number++ {
		row, _, whole := bytes.Cut(data[good:], []byte{'\n'})
		if !whole {
			break
		}
		l, err := parse(row)
		if number == 1 && (err != nil || !l.header()) { // a header is complete before the file has its name
			return &CorruptError{path, number, errors.Join(err, errors.New("is not the header of a run log"))}
		}
		if err != nil {
			break
		}
		a.take(l)
		good += len(row) + 1
	}
	if good == 0 {
		return &CorruptError{path, 1, errors.New("is not the header of a run log")}
	}
	if torn := data[good:]; len(torn) > 0 {
		aside, err := write(a.dir, fmt.Sprintf("%s.damaged-%d", name, time.Now().UnixNano()), torn)
		if err == nil {
			err = aside.Close()
		}
		if err != nil {
			return err
		}
	}
	if a.file, err = a.dir.OpenFile(name, os.O_RDWR, fileMode); err != nil {
		return err
	}
	a.size = int64(good)
	return a.file.Truncate(a.size)
}

// take is the state after a line.
func (a *appender) take(l line) {
	a.state.Seq = l.Seq
	if l.Cursor != 0 {
		a.state.Cursor = l.Cursor
	}
	switch {
	case l.header():
		maps.Copy(a.state.Positions, l.Positions)
	case l.Slot == "" || l.Kind == runlog.Mark:
	case l.Kind == runlog.Gone:
		delete(a.state.Positions, l.Slot)
	default:
		a.state.Positions[l.Slot] = a.state.Positions[l.Slot].After(l.Entry)
	}
}

// append writes a batch. After an error the log must be loaded again.
func (a *appender) append(b runlog.Batch) (err error) {
	switch {
	case a.file == nil:
		return errors.New("jsonl: the log must be loaded again")
	case b.After != a.state.Seq:
		return runlog.ErrConflict
	}
	defer func() {
		if err != nil {
			a.closeFile()
			err = fmt.Errorf("jsonl: %w", err)
		}
	}()
	if a.size > a.maxBytes {
		if err := a.rotate(); err != nil {
			return err
		}
	}
	lines := make([]line, len(b.Entries), len(b.Entries)+1)
	for i, e := range b.Entries {
		lines[i].Entry = e
	}
	if len(lines) == 0 {
		lines = append(lines, line{Entry: runlog.Entry{Seq: b.After, Kind: runlog.Mark, At: time.Now().UTC().Truncate(time.Millisecond)}})
	}
	lines[len(lines)-1].Cursor = b.Cursor
	var data []byte
	for _, l := range lines {
		row, err := l.encode()
		if err != nil {
			return err
		}
		data = append(data, row...)
	}
	if _, err := a.file.WriteAt(data, a.size); err != nil {
		return err
	}
	if err := a.file.Sync(); err != nil {
		return err
	}
	a.size += int64(len(data))
	for _, l := range lines {
		a.take(l)
	}
	return nil
}

// rotate begins a new file. It has its name only when its header is on the disk.
func (a *appender) rotate() error {
	head, err := line{
		Entry: runlog.Entry{Seq: a.state.Seq, At: time.Now().UTC().Truncate(time.Millisecond)}, Schema: schema,
		Group: a.group, Cursor: a.state.Cursor, Positions: a.state.Positions,
	}.encode()
	if err != nil {
		return err
	}
	file, err := replace(a.dir, fmt.Sprintf("%020d%s", a.state.Seq+1, suffix), head)
	if err != nil {
		return err
	}
	a.closeFile()
	a.file, a.size = file, int64(len(head))
	return nil
}

// write creates a file that does not exist yet, and returns it open when its data is on the disk.
func write(dir *os.Root, name string, data []byte) (*os.File, error) {
	made, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	if _, err = made.Write(data); err == nil {
		err = made.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

// replace writes a file, which is on the disk before it has its name, and returns it open.
func replace(dir *os.Root, name string, data []byte) (*os.File, error) {
	fresh := name + ".new"
	if err := dir.Remove(fresh); ignoreMissing(err) != nil { // of a writer that was killed
		return nil, err
	}
	made, err := write(dir, fresh, data)
	if err != nil {
		return nil, err
	}
	if err = dir.Rename(fresh, name); err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (a *appender) closeFile() {
	if a.file != nil {
		_ = a.file.Close() // it was synced, or its last batch does not count
		a.file = nil
	}
}

func (a *appender) close() error {
	a.closeFile()
	return errors.Join(a.lock.Close(), a.dir.Close())
}
