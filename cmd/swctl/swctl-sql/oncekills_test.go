package main

import (
	"bufio"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/once"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

var onceRuns = flag.Int("once.runs", 0, "how many runs of each database meet a fault in TestKills; default: one in each cell")

// askerCommand has the test binary be an instance: answerFor.
const askerCommand = "once-asker"

// answerFor runs jobs that ask, and has the faults that its input orders. Its handler notes a call
// for a tick whose effects a resolver had found.
func answerFor(args []string) {
	dialect, _ := strconv.Atoi(args[2])
	g := target{driver: args[0], dsn: args[1], d: once.Dialect(dialect)}
	s := &saboteur{runs: make(map[string]int64), ended: make(map[string]int64)}
	err := mysql.SetLogger(mysql.Logger(quiet{})) // of connections that are lost on purpose
	if err != nil {
		panic(err)
	}
	if g.raw, err = sql.Open(g.driver, g.dsn); err != nil {
		panic(err)
	}
	connector, err := s.connector(g)
	if err != nil {
		panic(err)
	}
	db, err := once.New(sql.OpenDB(connector), g.d)
	if err != nil {
		panic(err)
	}
	resolve := once.Resolver(db)
	m, err := singleworker.New(singleworker.Config{
		Servers: args[3], ServerType: args[4], SessionTimeout: time.Second, HistorySize: 60,
		Dial: func(ctx context.Context, kind, address string) (c net.Conn, err error) {
			return s.zk.dial(ctx, s, kind, address)
		},
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
	charge := once.Wrap(db, func(ctx context.Context, tx *sql.Tx, run *singleworker.Run) (err error) {
		sometimes(func() { s.at(atStatement, run.Slot, run.Tick.UnixMilli()) }, func() { err = g.effectOf(ctx, run)(tx) })
		return err
	})
	err = m.Handle("charge", s.handler(func(ctx context.Context, run *singleworker.Run) error {
		_, err := g.raw.ExecContext(ctx, g.bound("INSERT INTO called (slot, tick_ms) SELECT slot, tick_ms FROM found WHERE slot=? AND tick_ms=?"), run.Slot, run.Tick.UnixMilli())
		if err != nil {
			return err
		}
		return charge(ctx, run)
	}))
	if err != nil {
		panic(err)
	}
	go func() {
		for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
			order := strings.Split(orders.Text(), "\t")
			s.arm(order[0], order[1], order[2] == "true")
		}
		os.Exit(1) // nobody orders any more
	}()
	fmt.Fprintln(os.Stderr, "an instance ends:", m.Run(context.Background()))
}

// A cell of the matrix counts the runs that met a fault at a point.
type cell struct{ fault, point string }

// A hit is a run that met a fault.
type hit struct {
	cell

	slot string
	tick int64
}

// An asker is an instance of which the faults are ordered.
type asker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// A kills is a group whose instances meet faults.
type kills struct {
	t     *testing.T
	g     target
	zk    string
	cells chan cell

	mu   sync.Mutex
	hits []hit
}

const killsGroup = "asking"

func (k *kills) start() *asker {
	cmd := exec.Command(os.Args[0], askerCommand, k.g.driver, k.g.dsn+k.g.limit, strconv.Itoa(int(k.g.d)), k.zk, killsGroup) //nolint:noctx,gosec // it is killed; this test
	cmd.Stderr = k.t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	return &asker{cmd, in, bufio.NewScanner(out)}
}

func (a *asker) end() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

// work has one instance after the other meet the faults of cells.
func (k *kills) work() error {
	a := k.start()
	defer func() { a.end() }()
	for c := range k.cells {
		atDB := k.g.d != once.SQLite && rand.N(2) == 0
		if _, err := fmt.Fprintf(a.in, "%s\t%s\t%v\n", c.fault, c.point, atDB); err != nil {
			return err
		}
		stalled := time.AfterFunc(3*time.Minute, func() { _ = a.cmd.Process.Signal(syscall.SIGQUIT) }) // it prints where it is
		met := a.lines.Scan()
		stalled.Stop()
		if !met {
			return fmt.Errorf("an instance has ended before %v", c)
		}
		h, of := hit{cell: c}, strings.Split(a.lines.Text(), "\t")
		if len(of) != 3 {
			return fmt.Errorf("%v: an instance says %q", c, of)
		}
		h.slot = of[1]
		h.tick, _ = strconv.ParseInt(of[2], 10, 64)
		k.mu.Lock()
		k.hits = append(k.hits, h)
		k.mu.Unlock()
		switch c.fault {
		case faultKill:
			a.end()
			a = k.start()
		case faultStop:
			<-time.After(cutTime)
			if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				return err
			}
		case faultCut:
			a.lines.Scan() // that it is healed
		}
	}
	return nil
}

// Databases of each kind, which are not the only ones in use: it does not run beside other tests,
// of which some go by chance.
func TestKills(t *testing.T) { //nolint:paralleltest // see above
	all := targets(t)
	for _, name := range []string{"sqlite, WAL", "postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			orders := slices.Repeat(matrix(), max(1, (*onceRuns+len(matrix())-1)/len(matrix())))
			rand.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
			server := zkdev.Start(t, zkdev.Config{Tick: 100 * time.Millisecond, KeepLog: -1})
			asked := testKills(t, all[name].open(t), server.Addr(), slices.Values(orders))
			want := 1 // with so few runs it goes by chance
			if *onceRuns > 0 {
				want = 5
			}
			if asked < want {
				t.Errorf("effects were found in %d of the 9 cells after COMMIT, want at least %d", asked, want)
			}
		})
	}
}

// testKills has instances of a group killed, stopped and cut off as ordered. Then each tick that is
// ok has one row, each row a tick that is ok, and no handler was called after effects were found.
// testKills returns in how many cells after COMMIT effects were found by asking.
func testKills(t *testing.T, g target, zk string, orders iter.Seq[cell]) (asked int) {
	t.Helper()
	const jobs, instances = 24, 6
	for _, name := range []string{"found", "called"} {
		g.exec(t, "CREATE TABLE "+name+" (slot VARCHAR(100) NOT NULL, tick_ms BIGINT NOT NULL)")
	}
	client, err := admin.Dial(t.Context(), admin.Config{Servers: zk, ServerType: killsGroup})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range jobs {
		name := fmt.Sprintf("charge-%d", i)
		g.exec(t, "INSERT INTO counters (slot, n) VALUES (?,0)", name)
		j := singleworker.Job{Name: name, Schedule: "@every 1s", Handler: "charge", Interrupted: "ask", MaxAttempts: 100, Retries: 5}
		if _, err := client.Submit(t.Context(), j, admin.SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	log, err := jsonl.Open(t.TempDir(), jsonl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	logged := make(chan error, 1)
	go func() { logged <- runlog.Run(ctx, client, log, runlog.Options{Group: killsGroup}) }()
	k := &kills{t: t, g: g, zk: zk, cells: make(chan cell)}
	steady := k.start()
	defer steady.end()
	var all sync.WaitGroup
	for range instances {
		all.Go(func() {
			if err := k.work(); err != nil {
				t.Error(err)
				for range k.cells { // so that nobody waits for it
				}
			}
		})
	}
	for c := range orders {
		k.cells <- c
	}
	close(k.cells)
	all.Wait()
	settle(t, client)
	<-time.After(time.Second) // longer than the log gathers changes
	stop()
	if err := <-logged; err != nil {
		t.Fatal(err)
	}
	asked = k.judge(log)
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	return asked
}

// matrix lists the cells.
func matrix() (cells []cell) {
	for _, fault := range []string{faultKill, faultStop, faultCut} {
		for _, point := range []string{atClaim, atBegin, atStatement, atCommit, atCommitted, atResult} {
			cells = append(cells, cell{fault, point})
		}
	}
	return cells
}

// settle pauses each job after a run without a fault, so that no attempt is held back, and waits
// for the run that has begun meanwhile.
func settle(t *testing.T, client *admin.Client) {
	t.Helper()
	calm := time.Now()
	names, err := client.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	await := func(name string, is func(run history.Run) bool) {
		for {
			s, err := client.Get(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if s.LastRun != nil && is(*s.LastRun) {
				return
			}
			<-time.After(100 * time.Millisecond)
		}
	}
	for _, name := range names {
		await(name, func(run history.Run) bool { return run.OK() && run.Tick.After(calm) })
		if _, err := client.Pause(t.Context(), name, admin.PauseOptions{}); err != nil {
			t.Fatal(err)
		}
		await(name, history.Run.OK)
	}
}

// An outcome is what became of a tick, or of some.
type outcome struct{ runs, ok, rows, double, missing, found, after int }

func (o *outcome) add(of outcome) {
	o.runs++
	o.ok += of.ok
	o.rows += of.rows
	o.found += of.found
	o.after += of.after
	if of.rows > 1 {
		o.double++
	}
	if of.rows != of.ok {
		o.missing++
	}
}

// A work is a slot's tick.
type work struct {
	slot string
	tick int64
}

// judge compares the log with the rows. It returns in how many cells after COMMIT effects were
// found by asking.
func (k *kills) judge(log runlog.Store) (asked int) {
	t := k.t
	ticks := make(map[work]outcome)
	for e, err := range log.Entries(t.Context(), runlog.Query{Group: killsGroup}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Kind == runlog.Hole:
			t.Errorf("the log has a hole: %+v", e)
		case e.Kind == runlog.Ran && e.State == history.StateOK:
			o := outcome{ok: 1}
			if e.Effects != (history.Effects{}) {
				o.found = 1
			}
			ticks[work{e.Slot, e.Tick.UnixMilli()}] = o
		}
	}
	for w, n := range k.counts("effects") {
		o := ticks[w]
		o.rows = n
		ticks[w] = o
	}
	for w, n := range k.counts("called") {
		o := ticks[w]
		o.after = n
		ticks[w] = o
	}
	var all outcome
	for w, o := range ticks {
		if all.add(o); o.rows != o.ok {
			t.Errorf("%s: the tick of %v has %d rows, and is ok in %d entries", w.slot, time.UnixMilli(w.tick).UTC(), o.rows, o.ok)
		}
	}
	cells := make(map[cell]*outcome)
	for _, c := range matrix() {
		cells[c] = &outcome{}
	}
	for _, h := range k.hits {
		cells[h.cell].add(ticks[work{h.slot, h.tick}])
	}
	k.print(cells, all)
	if all.after > 0 {
		t.Errorf("%d calls of handlers after their effects were found", all.after)
	}
	for c, o := range cells {
		if o.found > 0 && (c.point == atCommit || c.point == atCommitted || c.point == atResult) {
			asked++
		}
	}
	return asked
}

// counts counts the rows of each tick.
func (k *kills) counts(table string) map[work]int {
	rows, err := k.g.raw.QueryContext(k.t.Context(), "SELECT slot, tick_ms, COUNT(*) FROM "+table+" GROUP BY slot, tick_ms")
	if err != nil {
		k.t.Fatal(err)
	}
	defer rows.Close()
	counts := make(map[work]int)
	for rows.Next() {
		var w work
		var n int
		if err := rows.Scan(&w.slot, &w.tick, &n); err != nil {
			k.t.Fatal(err)
		}
		counts[w] = n
	}
	if err := rows.Err(); err != nil {
		k.t.Fatal(err)
	}
	return counts
}

// print shows the ticks that met a fault, by cells, and all ticks.
func (k *kills) print(cells map[cell]*outcome, all outcome) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tpoint\truns\trows\tok ticks\tdouble\tmissing\tcalls after found\tfound by asking")
	line := func(c cell, o outcome) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", c.fault, c.point, o.runs, o.rows, o.ok, o.double, o.missing, o.after, o.found)
	}
	for _, c := range matrix() {
		line(c, *cells[c])
	}
	line(cell{"all", "ticks"}, all)
	_ = w.Flush()
	k.t.Log("\n" + text.String())
}
