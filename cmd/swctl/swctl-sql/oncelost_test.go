package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// A wire is a connector of a database that loses the answer of a COMMIT.
type wire struct {
	driver driver.Driver
	dsn    string

	mu    sync.Mutex
	lose  string        // what becomes of the next COMMIT: see wireTx.Commit
	down  bool          // nothing can begin
	fails int           // so many transactions, and queries outside of them, cannot begin
	begun chan struct{} // closed when something begins after a COMMIT of the kind "late"
	other func() error  // run before the answer of a COMMIT of the kind "overtaken"
}

type wireConn struct {
	driver.Conn

	w    *wire
	inTx bool
	late sync.WaitGroup // a COMMIT that is on its way
}

type wireTx struct {
	driver.Tx

	c *wireConn
}

var errWire = errors.New("the connection is lost")

func (w *wire) Driver() driver.Driver { return w.driver }

func (w *wire) Connect(context.Context) (driver.Conn, error) {
	c, err := w.driver.Open(w.dsn)
	return &wireConn{Conn: c, w: w}, err
}

// Close lets the server finish first.
func (c *wireConn) Close() error {
	go func() {
		c.late.Wait()
		_ = c.Conn.Close()
	}()
	return nil
}

func (c *wireConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if !c.inTx && c.w.isDown() {
		return nil, errWire
	}
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query) //nolint:forcetypeassert // all three do
}

func (c *wireConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	down := c.w.isDown()
	c.w.mu.Lock()
	if c.w.begun != nil {
		close(c.w.begun)
		c.w.begun = nil
	}
	c.w.mu.Unlock()
	if down {
		return nil, errWire
	}
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts) //nolint:forcetypeassert // as above
	c.inTx = err == nil
	return &wireTx{tx, c}, err
}

// isDown reports whether a transaction, or a query outside of one, is to fail.
func (w *wire) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	down := w.down || w.fails > 0
	w.fails = max(0, w.fails-1)
	return down
}

func (tx *wireTx) Rollback() error {
	tx.c.inTx = false
	return tx.Tx.Rollback()
}

// Commit loses the answer of a COMMIT, the request, with another run before it is noticed, or the
// answer as the database goes down, for good or for a
// while. Or it has the request arrive when the next transaction begins.
func (tx *wireTx) Commit() error {
	w := tx.c.w
	tx.c.inTx = false
	w.mu.Lock()
	defer w.mu.Unlock()
	lose := w.lose
	w.lose = ""
	switch lose {
	case "answer":
		return errors.Join(tx.Tx.Commit(), errWire)
	case "request":
		return errors.Join(tx.Rollback(), errWire)
	case "overtaken":
		return errors.Join(tx.Rollback(), w.other(), errWire)
	case "database":
		w.down = true
		return errors.Join(tx.Tx.Commit(), errWire)
	case "answer and connections":
		w.fails = 2
		return errors.Join(tx.Tx.Commit(), errWire)
	case "late":
		begun := make(chan struct{})
		w.begun = begun
		tx.c.late.Go(func() {
			<-begun
			_ = tx.Tx.Commit()
		})
		return driver.ErrBadConn // so that nobody uses the connection
	}
	return tx.Tx.Commit()
}

func (w *wire) set(lose string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose, w.down = lose, down
}

// testLostCommits has COMMIT return an error.
func testLostCommits(t *testing.T, g target) {
	t.Helper()
	w := &wire{driver: g.raw.Driver(), dsn: g.dsn}
	lossy := sql.OpenDB(w)
	defer lossy.Close()
	db, err := once.New(lossy, g.d)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		lose  string
		want  string // in the error of the run
		after error  // of its retry
	}{
		{"answer", "", once.ErrDone}, {"answer and connections", "", once.ErrDone}, {"overtaken", "done by run other", once.ErrDone}, {"late", "", once.ErrDone}, {"request", "not committed", nil}, {"database", "not known", once.ErrDone},
	} {
		if test.lose == "database" && g.d != once.SQLite { // one kind: Do asks for five seconds
			continue
		}
		t.Run(test.lose, func(t *testing.T) {
			slot := g.newSlot(t)
			attempt := func(run *singleworker.Run) error {
				return once.Do(t.Context(), db, run, g.effectOf(t.Context(), run))
			}
			w.other = func() error {
				run := runOf(slot, 1, 1, "other")
				return once.Do(t.Context(), g.db, run, g.effectOf(t.Context(), run))
			}
			w.set(test.lose, false)
			err := attempt(runOf(slot, 1, 1, "run-1"))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			w.set("", false)
			if err := attempt(runOf(slot, 1, 1, "run-2")); !errors.Is(err, test.after) {
				t.Errorf("the retry: %v, want %v", err, test.after)
			}
			if got := g.effects(t, slot); len(got) != 1 {
				t.Errorf("effects %v, want one", got)
			}
		})
	}
	t.Run("resolver", func(t *testing.T) {
		slot := g.newSlot(t)
		run := runOf(slot, 1, 1, "run-1")
		if err := once.Do(t.Context(), db, run, g.effectOf(t.Context(), run)); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.fails = 2
		w.mu.Unlock()
		if effects, found, err := once.Resolver(db)(t.Context(), runOf(slot, 1, 2, "run-2")); !found || err != nil || effects.RunID != "run-1" {
			t.Errorf("a resolver whose first connections are lost: %+v, %v, %v", effects, found, err)
		}
	})
}
