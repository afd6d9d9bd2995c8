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
	record         zkrec.Tick
	historyVersion int32
	history        zkrec.History
}

// Record is the tick record.
func (s Stored) Record() zkrec.Tick { return s.record }

// Version is that of the tick node.
func (s Stored) Version() int32 { return s.version }

// History is at least as recent as the record.
func (s Stored) History() zkrec.History { return s.history }

// readBoth reads the tick and the history node. A change moves both on, so it does not matter which of
// two states either is of: the versions decide.
func readBoth(ctx context.Context, l *session.Loop, slot string) (s Stored, err error) {
	var tickErr, historyErr error
	l.Together(ctx, 2, func(ctx context.Context, i int) {
		if i == 0 {
			tickErr = s.readTick(ctx, l, slot, l.Conn.Get)
		} else {
			historyErr = s.readHistory(ctx, l, slot)
		}
	})
	if tickErr != nil {
		return s, tickErr
	}
	return s, historyErr
}

// ReadWatched reads a slot's nodes and watches its tick node. It is called beside the loop.
func ReadWatched(ctx context.Context, l *session.Loop, slot string) (s Stored, err error) {
	if err = s.readTick(ctx, l, slot, l.Conn.GetW); err == nil {
		err = s.readHistory(ctx, l, slot) // after the record: as old, or newer
	}
	return s, err
}

type get func(ctx context.Context, path string) ([]byte, zkconn.Stat, error)

func (s *Stored) readTick(ctx context.Context, l *session.Loop, slot string, read get) error {
	path := l.Tree.Tick(slot)
	data, stat, err := read(ctx, path)
	if err == nil {
		s.version = stat.Version
		s.record, err = zkrec.ParseTick(data, stat.Mtime)
	}
	return session.ReadError(path, err)
}

func (s *Stored) readHistory(ctx context.Context, l *session.Loop, slot string) error {
	path := l.Tree.History(slot)
	data, stat, err := l.Conn.Get(ctx, path)
	if err == nil {
		s.historyVersion = stat.Version
		s.history, err = zkrec.ParseHistory(data)
	}
	return session.ReadError(path, err)
}
