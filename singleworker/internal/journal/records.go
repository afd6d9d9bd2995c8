package journal

import (
	"context"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Stored is the content of a slot's tick and history nodes.
type Stored struct {
	version        int32
	historyVersion int32
	record         *zkrec.Tick // nil until it was read; shared, and not changed but replaced
	history        zkrec.Log
}

// Record is the tick record.
func (s Stored) Record() zkrec.Tick { return *s.record }

// Version is that of the tick node.
func (s Stored) Version() int32 { return s.version }

// History is at least as recent as the record.
func (s Stored) History() zkrec.History { return s.history.History() }

// bothOf is what to read of a slot: its tick and its history node. A change moves both on, so it does not matter
// which of two states either is of: the versions decide.
func bothOf(l *session.Loop, slot string) []zkconn.Read {
	return []zkconn.Read{{Path: l.Tree.Tick(slot)}, {Path: l.Tree.History(slot)}}
}

// setBoth takes in what was read.
func (s *Stored) setBoth(l *session.Loop, slot string, r []zkconn.ReadResult) error {
	err := s.setTick(l.Tree.Tick(slot), r[0].Data, r[0].Stat, r[0].Err)
	if err != nil {
		return err
	}
	return s.setHistory(l.Tree.History(slot), r[1].Data, r[1].Stat, r[1].Err)
}

// ReadWatched reads a slot's nodes and watches its tick node. It is called beside the loop.
func ReadWatched(ctx context.Context, l *session.Loop, slot string) (s Stored, err error) {
	path := l.Tree.Tick(slot)
	data, stat, err := l.Conn.GetW(ctx, path)
	if err = s.setTick(path, data, stat, err); err != nil {
		return s, err
	}
	path = l.Tree.History(slot) // after the record: as old, or newer
	data, stat, err = l.Conn.Get(ctx, path)
	return s, s.setHistory(path, data, stat, err)
}

func (s *Stored) setTick(path string, data []byte, stat zkconn.Stat, err error) error {
	if err == nil {
		var record zkrec.Tick
		record, err = zkrec.ParseTick(data, stat.Mtime)
		s.version, s.record = stat.Version, &record
	}
	return session.ReadError(path, err)
}

func (s *Stored) setHistory(path string, data []byte, stat zkconn.Stat, err error) error {
	if err == nil {
		s.historyVersion = stat.Version
		s.history, err = zkrec.ParseLog(data)
	}
	return session.ReadError(path, err)
}
