package main

import (
	"context"
	"database/sql"
	"iter"
	"net/url"

	"github.com/swjobs/singleworker/cmd/swctl/internal/commands"
	"github.com/swjobs/singleworker/cmd/swctl/internal/effects"
	"github.com/swjobs/singleworker/singleworker/once"
)

// markerDatabases are those in which applications use package once, by the schemes of their URLs.
var markerDatabases = map[string]commands.DatabaseOpener{
	"postgres":   openEffects(postgres, once.Postgres),
	"postgresql": openEffects(postgres, once.Postgres),
	"mysql":      openEffects(mySQL, once.MySQL),
	"mariadb":    openEffects(mySQL, once.MySQL),
	"sqlite":     openSQLiteEffects,
}

func openEffects(text func(*url.URL) (driver, text string, err error), d once.Dialect) commands.DatabaseOpener {
	return func(address *url.URL, _ bool) (effects.Database, error) {
		driver, text, err := text(address)
		if err != nil {
			return nil, err
		}
		return newEffects(driver, text, d)
	}
}

// openSQLiteEffects opens a file that is there, and leaves it as the application has it.
func openSQLiteEffects(address *url.URL, readOnly bool) (effects.Database, error) {
	path, err := sqlitePath(address)
	if err != nil {
		return nil, err
	}
	params := url.Values{"_pragma": {"busy_timeout(10000)"}, "mode": {"rw"}}
	if readOnly {
		params.Set("mode", "ro")
	}
	return newEffects("sqlite", sqliteText(path, params), once.SQLite)
}

func newEffects(driver, text string, d once.Dialect) (effects.Database, error) {
	raw, err := open(driver, text)
	if err != nil {
		return nil, err
	}
	db, err := once.New(raw, d)
	return markers{db, raw}, err
}

// markers are package once's as package effects has them.
type markers struct {
	*once.DB

	raw *sql.DB
}

func (m markers) Close() error { return m.raw.Close() }

// Fences implements effects.Database.
func (m markers) Fences(ctx context.Context, group string) ([]effects.Fence, error) {
	found, err := m.DB.Fences(ctx, group)
	fences := make([]effects.Fence, len(found))
	for i, f := range found {
		fences[i] = effects.Fence(f)
	}
	return fences, err
}

// Markers implements effects.Database.
func (m markers) Markers(ctx context.Context, group string) iter.Seq2[effects.Marker, error] {
	return func(yield func(effects.Marker, error) bool) {
		for o, err := range m.DB.Markers(ctx, group) {
			if o.BeforeTick {
				continue
			}
			marker := effects.Marker{Slot: o.Slot, Tick: o.Tick, Request: o.Request, Step: o.Step != "", RunID: o.RunID, InstanceID: o.InstanceID, At: o.At}
			if !yield(marker, err) {
				return
			}
		}
	}
}
