package journal

import (
	"context"
	"errors"
	"log/slog"
	"time"

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
	data, stat, err := read(ctx, l.Tree.Tick(slot))
	if err == nil {
		s.version = stat.Version
		s.record, err = parseTick(l.Log, slot, data, stat.Mtime)
	}
	return err
}

func (s *Stored) readHistory(ctx context.Context, l *session.Loop, slot string) error {
	data, stat, err := l.Conn.Get(ctx, l.Tree.History(slot))
	if err == nil {
		s.historyVersion = stat.Version
		s.history, err = parseHistory(l.Log, slot, data)
	}
	return err
}

// parseTick treats an unreadable record as one that says nothing, not even what was missed: running
// ticks twice is worse than not running them. The node of a job that never ran was written with the
// job: where its mtime is later, someone recreated or emptied it, and the ticks before are nobody's.
func parseTick(log *slog.Logger, slot string, data []byte, written time.Time) (zkrec.Tick, error) {
	record, err := zkrec.ParseTick(data)
	if err == nil && record.Watermark == 0 {
		record.Watermark = written.UnixMilli()
	}
	if err == nil || errors.As(err, new(*zkrec.SchemaError)) {
		return record, err
	}
	log.Error("tick record is not readable: begun anew, without the ticks before now", "job", slot, "err", err)
	return zkrec.Tick{Watermark: time.Now().UnixMilli()}, nil
}

func parseHistory(log *slog.Logger, slot string, data []byte) (zkrec.History, error) {
	history, err := zkrec.ParseHistory(data)
	if err == nil || errors.As(err, new(*zkrec.SchemaError)) {
		return history, err
	}
	log.Error("history is not readable: begun anew", "job", slot, "err", err)
	return zkrec.History{}, nil
}
