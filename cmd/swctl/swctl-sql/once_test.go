package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// A target is a database to which runs write.
type target struct {
	driver, dsn string
	url         string // as swctl takes it, without a right to write; of the three plain ones
	limit       string // appended to dsn, lets the database end a suspended owner's transaction
	d           once.Dialect
	serial      bool // runs transactions as if one after the other
	refuses     bool // for that, it refuses some
	raw         *sql.DB
	db          *once.DB
}

// targets are databases with the tables of package once and of these tests.
func targets(tb testing.TB) map[string]target {
	tb.Helper()
	file := func(params string) string {
		return "file:" + filepath.Join(tb.TempDir(), "once.db") + "?_pragma=busy_timeout(20000)&" + params
	}
	wal := file("_pragma=journal_mode(WAL)")
	path, _, _ := strings.Cut(strings.TrimPrefix(wal, "file:"), "?")
	postgres, mariaURL := startPostgres(tb)+"?application_name=once", startMariaDB(tb)
	login, address, _ := strings.Cut(strings.TrimPrefix(mariaURL, "mariadb://"), "@")
	address, name, _ := strings.Cut(address, "/")
	const ends, endsMaria = "&idle_in_transaction_session_timeout=1000", "&idle_transaction_timeout=1"
	maria := login + "@tcp(" + address + ")/" + name + "?parseTime=false"
	return map[string]target{
		"sqlite, WAL":             {driver: "sqlite", dsn: wal, url: "sqlite:" + path, d: once.SQLite},
		"sqlite, rollback":        {driver: "sqlite", dsn: file("_txlock=immediate"), d: once.SQLite, serial: true},
		"postgres":                {driver: "pgx", limit: ends, dsn: postgres, url: postgres + "&default_transaction_read_only=on", d: once.Postgres},
		"postgres, serializable":  {driver: "pgx", limit: ends, dsn: postgres + "&default_transaction_isolation=serializable", d: once.Postgres, serial: true, refuses: true},
		"mariadb":                 {driver: "mysql", limit: endsMaria, dsn: maria, url: mariaURL + "?tx_read_only=1", d: once.MySQL},
		"mariadb, read committed": {driver: "mysql", limit: endsMaria, dsn: maria + "&tx_isolation='READ-COMMITTED'&clientFoundRows=true&interpolateParams=true", d: once.MySQL},
		"mariadb, serializable":   {driver: "mysql", limit: endsMaria, dsn: maria + "&tx_isolation='SERIALIZABLE'", d: once.MySQL, serial: true, refuses: true},
	}
}

// open returns the target with its tables.
func (g target) open(tb testing.TB) target {
	tb.Helper()
	g.raw, g.db = openOnce(tb, g)
	var created sync.WaitGroup
	for range 4 {
		created.Go(func() {
			if err := g.db.Create(tb.Context()); err != nil {
				tb.Errorf("several create the tables at once: %v", err)
			}
		})
	}
	created.Wait()
	g.exec(tb, "CREATE TABLE IF NOT EXISTS effects (slot VARCHAR(100) NOT NULL, n BIGINT NOT NULL, tick_ms BIGINT NOT NULL, token BIGINT NOT NULL)")
	g.exec(tb, "CREATE TABLE IF NOT EXISTS counters (slot VARCHAR(100) PRIMARY KEY, n BIGINT NOT NULL)")
	return g
}

func openOnce(tb testing.TB, g target) (*sql.DB, *once.DB) {
	tb.Helper()
	raw, err := sql.Open(g.driver, g.dsn)
	if err != nil {
		tb.Fatal(err)
	}
	raw.SetMaxOpenConns(16)
	raw.SetMaxIdleConns(16)
	tb.Cleanup(func() {
		if err := raw.Close(); err != nil {
			tb.Error(err)
		}
	})
	db, err := once.New(raw, g.d)
	if err != nil {
		tb.Fatal(err)
	}
	return raw, db
}

func (g target) bound(query string) string {
	for i := 1; g.d == once.Postgres && strings.Contains(query, "?"); i++ {
		query = strings.Replace(query, "?", "$"+strconv.Itoa(i), 1)
	}
	return query
}

func (g target) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := g.raw.ExecContext(tb.Context(), g.bound(query), args...); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
}

// An effect is a row that a run has written.
type effect struct{ n, tick, token int64 }

// effects returns a slot's, in the order of their numbers.
func (g target) effects(t *testing.T, slot string) (all []effect) {
	t.Helper()
	rows, err := g.raw.QueryContext(t.Context(), g.bound("SELECT n, tick_ms, token FROM effects WHERE slot=? ORDER BY n, tick_ms"), slot)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e effect
		if err := rows.Scan(&e.n, &e.tick, &e.token); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// effectOf counts on: it reads a number, and writes the next one with its run. It does not lock the
// number, and takes its time after the reading.
func (g target) effectOf(ctx context.Context, run *singleworker.Run) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		var n int64
		if err := tx.QueryRowContext(ctx, g.bound("SELECT n FROM counters WHERE slot=?"), run.Slot).Scan(&n); err != nil {
			return err
		}
		for range 5 {
			if _, err := tx.ExecContext(ctx, "SELECT 1"); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, g.bound("INSERT INTO effects (slot, n, tick_ms, token) VALUES (?,?,?,?)"), run.Slot, n+1, run.Tick.UnixMilli(), run.Token)
		if err == nil {
			_, err = tx.ExecContext(ctx, g.bound("UPDATE counters SET n=? WHERE slot=?"), n+1, run.Slot)
		}
		return err
	}
}

// newSlot names a slot for a test.
func (g target) newSlot(tb testing.TB) string {
	tb.Helper()
	slot := strings.ReplaceAll(tb.Name(), "/", " ") + "[0]"
	g.exec(tb, "INSERT INTO counters (slot, n) VALUES (?,0)", slot)
	return slot
}

func runOf(slot string, tick, token int64, id string) *singleworker.Run {
	job, _, _ := strings.Cut(slot, "[")
	return &singleworker.Run{
		ID: id, Group: "billing", Job: job, Slot: slot, Tick: time.UnixMilli(1_000_000 + tick), Token: token, InstanceID: "app-" + strconv.FormatInt(token, 10),
	}
}

// refused reports whether an error is the price of a strict isolation.
func (g target) refused(err error) bool {
	var postgres *pgconn.PgError
	var maria *mysql.MySQLError
	return g.refuses && (errors.As(err, &postgres) && postgres.Code == "40001" || errors.As(err, &maria) && maria.Number == 1213)
}

// A doer is once.Do, or has a mistake.
type doer func(ctx context.Context, g target, run *singleworker.Run, f func(*sql.Tx) error) error

func right(ctx context.Context, g target, run *singleworker.Run, f func(*sql.Tx) error) error {
	return once.Do(ctx, g.db, run, f)
}

// checks are the parts of the promise. Each returns the breaches that it has seen.
var checks = map[string]func(t *testing.T, g target, do doer) (breaches []string){
	"repeats": checkRepeats, "owners": checkOwners, "failures": checkFailures, "late": checkLate,
}

// checkRepeats has each tick attempted many times at once, and then once more: a strict isolation
// may have refused all but one of those.
func checkRepeats(t *testing.T, g target, do doer) (breaches []string) {
	t.Helper()
	const ticks, attempts = 10, 8
	slot := g.newSlot(t)
	for tick := range int64(ticks) {
		results := make([]error, attempts+1)
		attempt := func(i int) {
			run := runOf(slot, tick, 1+min(int64(i)/(attempts/2), 1), fmt.Sprintf("run-%d-%d", tick, i)) // of two owners
			results[i] = do(t.Context(), g, run, g.effectOf(t.Context(), run))
		}
		var all sync.WaitGroup
		for i := range attempts {
			all.Go(func() { attempt(i) })
		}
		all.Wait()
		attempt(attempts)
		first := slices.Index(results, nil)
		for i, err := range results {
			var done *once.DoneError
			switch {
			case err == nil && i == first, errors.Is(err, once.ErrFenced) && i < attempts/2:
			case err == nil:
				breaches = append(breaches, fmt.Sprintf("tick %d was done by runs %d and %d", tick, first, i))
			case g.refused(err):
			case !errors.As(err, &done) || !errors.Is(err, once.ErrDone) || done.RunID != fmt.Sprintf("run-%d-%d", tick, first):
				breaches = append(breaches, fmt.Sprintf("run %d of tick %d, done by %d: %v", i, tick, first, err))
			}
		}
	}
	if got := len(g.effects(t, slot)); got != ticks {
		breaches = append(breaches, fmt.Sprintf("%d effects of %d ticks", got, ticks))
	}
	return breaches
}

// checkOwners has several work at once, each of whom believes to own the slot alone.
func checkOwners(t *testing.T, g target, do doer) (breaches []string) {
	t.Helper()
	const owners, ticks = 6, 15
	slot := g.newSlot(t)
	results := make(chan error, owners*ticks)
	var all sync.WaitGroup
	for owner := range int64(owners) {
		all.Go(func() {
			for i := range int64(ticks) {
				run := runOf(slot, owner*ticks+i, 1+i/3, fmt.Sprintf("run-%d-%d", owner, i))
				results <- do(t.Context(), g, run, g.effectOf(t.Context(), run))
			}
		})
	}
	all.Wait()
	close(results)
	written := 0
	for err := range results {
		switch {
		case err == nil:
			written++
		case !errors.Is(err, once.ErrFenced) && !g.refused(err):
			breaches = append(breaches, fmt.Sprintf("a run was refused: %v", err))
		}
	}
	effects := g.effects(t, slot)
	if len(effects) != written {
		breaches = append(breaches, fmt.Sprintf("%d effects of %d runs that succeeded", len(effects), written))
	}
	for i, e := range effects {
		if e.n != int64(i)+1 {
			breaches = append(breaches, fmt.Sprintf("effect %d has number %d: it did not see the one before", i+1, e.n))
		}
		if i > 0 && e.token < effects[i-1].token {
			breaches = append(breaches, fmt.Sprintf("effect %d is by an earlier owner than the one before: %d after %d", i+1, e.token, effects[i-1].token))
		}
	}
	return breaches
}

// checkFailures has an attempt fail after it has written.
func checkFailures(t *testing.T, g target, do doer) (breaches []string) {
	t.Helper()
	slot, broken := g.newSlot(t), errors.New("broken")
	run := runOf(slot, 1, 1, "run-1")
	err := do(t.Context(), g, run, func(tx *sql.Tx) error { return errors.Join(g.effectOf(t.Context(), run)(tx), broken) })
	if !errors.Is(err, broken) || len(g.effects(t, slot)) > 0 {
		breaches = append(breaches, fmt.Sprintf("after a failure (%v), there are effects %v", err, g.effects(t, slot)))
	}
	func() {
		defer func() { _ = recover() }()
		_ = do(t.Context(), g, run, func(tx *sql.Tx) error { panic(g.effectOf(t.Context(), run)(tx)) })
	}()
	again := runOf(slot, 1, 1, "run-2")
	err = do(t.Context(), g, again, g.effectOf(t.Context(), again))
	if err != nil || len(g.effects(t, slot)) != 1 {
		breaches = append(breaches, fmt.Sprintf("the attempt after a failure: %v, effects %v", err, g.effects(t, slot)))
	}
	return breaches
}

// checkLate has an earlier owner come late.
func checkLate(t *testing.T, g target, do doer) (breaches []string) {
	t.Helper()
	slot := g.newSlot(t)
	for _, step := range []struct {
		tick, token int64
		want        error
	}{{1, 5, nil}, {2, 5, nil}, {3, 1<<62 + 1, nil}, {4, 1 << 62, once.ErrFenced}, {3, 1<<62 + 1, once.ErrDone}, {3, 1<<62 + 3, once.ErrDone}, {4, 1<<62 + 2, once.ErrFenced}, {4, 1<<62 + 3, nil}} {
		run := runOf(slot, step.tick, step.token, "run")
		if err := do(t.Context(), g, run, g.effectOf(t.Context(), run)); !errors.Is(err, step.want) {
			breaches = append(breaches, fmt.Sprintf("tick %d with token %d: %v, want %v", step.tick, step.token, err, step.want))
		}
	}
	if got := len(g.effects(t, slot)); got != 4 {
		breaches = append(breaches, fmt.Sprintf("%d effects of 4 ticks", got))
	}
	return breaches
}

func TestOnce(t *testing.T) {
	t.Parallel()
	if err := mysql.SetLogger(mysql.Logger(quiet{})); err != nil { // of connections that are lost on purpose
		t.Fatal(err)
	}
	for name, g := range targets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := g.open(t)
			for name, check := range checks {
				t.Run(name, func(t *testing.T) {
					for _, breach := range check(t, g, right) {
						t.Error(breach)
					}
				})
			}
			for name, test := range map[string]func(*testing.T, target){
				"keys": testKeys, "steps": testSteps, "wrap": testWrap, "lost": testLostCommits, "prune": testPrune, "reset": testReset,
				"deaths": testDeaths, "ask": testAsk, "check": testCheck, "lower": testLower,
			} {
				t.Run(name, func(t *testing.T) { test(t, g) })
			}
			for name, planted := range mistakes {
				if g.serial && planted.harmlessIfSerial {
					continue
				}
				t.Run(name, func(t *testing.T) { testMistake(t, g, planted) })
			}
		})
	}
}

type quiet struct{}

func (quiet) Print(...any) {}
