package swtest

import (
	"context"
	"log/slog"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
)

// faults is a log that nobody reads. It fails the test when an instance has noticed that it does
// not work as it should.
type faults struct{ tb TB }

// Enabled is slog.Handler's.
func (f faults) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle is slog.Handler's.
func (f faults) Handle(_ context.Context, r slog.Record) error {
	if r.Message == agenda.Missed {
		r.Attrs(func(a slog.Attr) bool {
			f.tb.Errorf("%s: %s", r.Message, a)
			return true
		})
	}
	return nil
}

// WithAttrs is slog.Handler's.
func (f faults) WithAttrs([]slog.Attr) slog.Handler { return f }

// WithGroup is slog.Handler's.
func (f faults) WithGroup(string) slog.Handler { return f }
