package singleworker

import (
	"context"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// quietFor is how long after a warning about skipped ticks of a slot the next ones for the same
// reason are logged at debug level: a job whose runs take longer than its period skips ticks for
// ever, and its history has them all.
const quietFor = 10 * time.Minute

// quiet holds back warnings that repeat. It is used only by the runner's loop.
type quiet map[quietKey]*quietState

type quietKey struct {
	slot   string
	reason history.Reason
}

type quietState struct {
	until time.Time
	ticks int // not warned of since the last warning
}

// notRun logs ticks that were not run.
func (q quiet) notRun(log *slog.Logger, slot string, e ticks.Entry) {
	attrs := []any{
		"job", slot, "tick", time.UnixMilli(e.Tick), "to", time.UnixMilli(e.Last()), "count", e.Ticks(),
		"state", e.State, "reason", e.Reason,
	}
	if e.State != history.StateSkipped {
		log.Warn("ticks not run", attrs...)
		return
	}
	key, now := quietKey{slot, e.Reason}, time.Now()
	last := q[key]
	if last != nil && now.Before(last.until) {
		last.ticks += e.Ticks()
		log.Log(context.Background(), slog.LevelDebug, "ticks not run", attrs...)
		return
	}
	if last != nil && last.ticks > 0 {
		attrs = append(attrs, "since_last_warning", last.ticks)
	}
	q[key] = &quietState{until: now.Add(quietFor)}
	log.Warn("ticks not run", attrs...)
}
