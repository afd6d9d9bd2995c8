package journal

import (
	"context"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Stored is the content of a slot's tick and history nodes.
type Stored struct {
	version int32
	pages   [zkrec.HistoryPages]int32 // the versions of the history's, or absent
	record  *zkrec.Tick               // nil until it was read; shared, and not changed but replaced
	history zkrec.Log
}

// absent is the version of a page that does not exist.
const absent = -1

// Record is the tick record.
func (s Stored) Record() zkrec.Tick { return *s.record }

// Version is the tick node's version.
func (s Stored) Version() int32 { return s.version }

// History is at least as recent as the record.
func (s Stored) History() zkrec.History { return s.history.History() }

// setMark has record and history agree on where the history is. They do, unless one of them was
// repaired, or written manually.
func (s *Stored) setMark() {
	s.history = s.history.From(s.record.History)
	s.record.History = s.history.Mark()
}

// ReadWatched reads a slot's nodes and watches its tick node. It is called beside the loop.
func ReadWatched(ctx context.Context, l *session.Loop, slot string) (s Stored, err error) {
	path := l.Tree.Tick(slot)
	data, stat, err := l.Conn.GetW(ctx, path)
	if err = s.setTick(path, data, stat, err); err != nil {
		return s, err
	}
	return s, s.setHistory(l.Tree.History(slot), l.Conn.ReadMany(ctx, zkconn.ReadsOf(l.Tree.HistoryPages(slot)...))) // after the record: as old, or newer
}

func (s *Stored) setTick(path string, data []byte, stat zkconn.Stat, err error) error {
	if err == nil {
		var record zkrec.Tick
		record, err = zkrec.ParseTick(data, stat.Mtime)
		s.version, s.record = stat.Version, &record
	}
	return session.ReadError(path, err)
}

func (s *Stored) setHistory(path string, pages []zkconn.ReadResult) error {
	data, err := zkconn.DataOf(pages) // a slot is made with the first
	if err == nil {
		s.history, err = zkrec.ParseLog(data)
	}
	if err != nil {
		return session.ReadError(path, err)
	}
	for i := range s.pages {
		s.pages[i] = absent
		if i < len(pages) && pages[i].Err == nil {
			s.pages[i] = pages[i].Stat.Version
		}
	}
	s.setMark()
	return nil
}
