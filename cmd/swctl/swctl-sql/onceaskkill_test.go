package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/once"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// askerCommand has the test binary be an instance: answerFor.
const askerCommand = "once-asker"

// A deadly is a connector of a database. It kills the process at one COMMIT in deaths, when that is
// on its way, or was answered.
type deadly struct {
	wire

	deaths int // 0: never
}

type deadlyConn struct {
	*wireConn

	deaths int
}

type deadlyTx struct {
	driver.Tx

	deaths int
}

func (d *deadly) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := d.wire.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &deadlyConn{c.(*wireConn), d.deaths}, nil //nolint:forcetypeassert // it makes no other
}

func (c *deadlyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.wireConn.BeginTx(ctx, opts)
	return &deadlyTx{tx, c.deaths}, err
}

func (tx *deadlyTx) Commit() error {
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	if tx.deaths == 0 || rand.N(tx.deaths) > 0 {
		return tx.Tx.Commit()
	}
	if rand.N(2) == 0 {
		time.AfterFunc(rand.N(time.Millisecond), die)
		err := tx.Tx.Commit()
		<-time.After(time.Second)
		return err
	}
	err := tx.Tx.Commit()
	die()
	return err
}

// answerFor runs jobs that ask, and dies. Its handler notes a call for a tick whose effects a
// resolver had found.
func answerFor(args []string) {
	dialect, _ := strconv.Atoi(args[2])
	deaths, _ := strconv.Atoi(args[5])
	g := target{driver: args[0], dsn: args[1], d: once.Dialect(dialect)}
	var err error
	if g.raw, err = sql.Open(g.driver, g.dsn); err != nil {
		panic(err)
	}
	db, err := once.New(sql.OpenDB(&deadly{wire: wire{driver: g.raw.Driver(), dsn: g.dsn}, deaths: deaths}), g.d)
	if err != nil {
		panic(err)
	}
	resolve := once.Resolver(db)
	m, err := singleworker.New(singleworker.Config{
		Servers: args[3], ServerType: args[4], SessionTimeout: time.Second, HistorySize: 200,
		Resolve: func(ctx context.Context, run *singleworker.Run) (singleworker.Effects, bool, error) {
			effects, found, err := resolve(ctx, run)
			if found {
				_, err = g.raw.ExecContext(ctx, g.bound("INSERT INTO found (slot, tick_ms) VALUES (?,?)"), run.Slot, run.Tick.UnixMilli())
			}
			return effects, found, err
		},
	})
	if err != nil {
		panic(err)
	}
	charge := once.Wrap(db, func(ctx context.Context, tx *sql.Tx, run *singleworker.Run) error { return g.effectOf(ctx, run)(tx) })
	err = m.Handle("charge", func(ctx context.Context, run *singleworker.Run) error {
		_, err := g.raw.ExecContext(ctx, g.bound("INSERT INTO called (slot, tick_ms) SELECT slot, tick_ms FROM found WHERE slot=? AND tick_ms=?"), run.Slot, run.Tick.UnixMilli())
		if err != nil {
			return err
		}
		return charge(ctx, run)
	})
	if err == nil {
		err = m.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, "an instance ends:", err)
}

// count is the number of rows that a query counts.
func (g target) count(t *testing.T, query string) (n int) {
	t.Helper()
	if err := g.raw.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// One of each database. It does not run beside other tests, of which some go by chance.
func TestAskKills(t *testing.T) { //nolint:paralleltest // see above
	all := targets(t)
	for _, name := range []string{"sqlite, WAL", "postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) { testAskKills(t, all[name].open(t)) })
	}
}

// testAskKills has instances of a group killed at COMMITs. Afterwards each tick that is ok has one
// row, each row a tick that is ok, and no handler was called after effects were found.
func testAskKills(t *testing.T, g target) {
	t.Helper()
	const jobs, kills, deaths = 8, 8, 12
	for _, name := range []string{"found", "called"} {
		g.exec(t, "CREATE TABLE "+name+" (slot VARCHAR(100) NOT NULL, tick_ms BIGINT NOT NULL)")
	}
	server := zkdev.Start(t, zkdev.Config{Tick: 100 * time.Millisecond})
	client, err := admin.Dial(t.Context(), admin.Config{Servers: server.Addr(), ServerType: "asking"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range jobs {
		name := fmt.Sprintf("charge-%d", i)
		g.exec(t, "INSERT INTO counters (slot, n) VALUES (?,0)", name)
		if _, err := client.Submit(t.Context(), singleworker.Job{Name: name, Schedule: "@every 1s", Handler: "charge", Interrupted: "ask", MaxAttempts: 100}, admin.SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(deaths int) *exec.Cmd {
		cmd := exec.Command(os.Args[0], askerCommand, g.driver, g.dsn, strconv.Itoa(int(g.d)), server.Addr(), "asking", strconv.Itoa(deaths)) //nolint:noctx,gosec // it is killed; this test
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range kills / 2 {
				_ = start(deaths).Wait() // it kills itself
			}
		})
	}
	all.Wait()
	survivor := start(0)
	defer func() {
		_ = survivor.Process.Kill()
		_ = survivor.Wait()
	}()
	<-time.After(4 * time.Second)
	g.judge(t, client, jobs)
}

// judge pauses the jobs, waits for their runs, and compares their histories with the rows.
func (g target) judge(t *testing.T, client *admin.Client, jobs int) {
	t.Helper()
	ok, found := 0, 0
	for i := range jobs {
		name := fmt.Sprintf("charge-%d", i)
		if _, err := client.Pause(t.Context(), name, admin.PauseOptions{}); err != nil {
			t.Fatal(err)
		}
		for {
			s, err := client.Get(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if s.LastRun != nil && s.LastRun.State != history.StateRunning && s.LastRun.State != history.StateUnknown && s.LastRun.NextAttempt == "" {
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		h, err := client.History(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		ticks := make(map[int64]int) // how often each is in the database; 0: it is ok
		for _, e := range h.Entries {
			if e.OK() {
				ticks[e.Tick.UnixMilli()] = 0
				ok++
			}
			if e.Effects != (history.Effects{}) {
				found++
			}
		}
		for _, row := range g.effects(t, name) {
			if _, isOK := ticks[row.tick]; !isOK {
				t.Errorf("%s: the row of %v has no tick that is ok", name, time.UnixMilli(row.tick))
			}
			ticks[row.tick]++
		}
		for tick, rows := range ticks {
			if rows != 1 {
				t.Errorf("%s: the tick of %v is ok and has %d rows", name, time.UnixMilli(tick), rows)
			}
		}
	}
	if called := g.count(t, "SELECT COUNT(*) FROM called"); called > 0 {
		t.Errorf("%d calls of handlers after their effects were found", called)
	}
	if found == 0 {
		t.Error("no effects of an interrupted run were found")
	}
	t.Logf("%d ticks ok, %d of them by effects that were found", ok, found)
}
