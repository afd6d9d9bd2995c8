package once_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// A handler charges the orders of a day, once, although a run of it may be repeated. Markers are
// kept for a month.
func Example() { //nolint:testableexamples // it needs a database
	ctx := context.Background()
	m, err := singleworker.New(singleworker.Config{Servers: "zk1:2181,zk2:2181,zk3:2181", ServerType: "billing"})
	check(err)
	sqlDB, err := sql.Open("pgx", "postgres:///billing")
	check(err)
	db, err := once.New(sqlDB, once.Postgres)
	check(err)
	err = db.Create(ctx) // its tables, if they are missing
	check(err)
	charge := func(ctx context.Context, tx *sql.Tx, run *singleworker.Run) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO charges (day) VALUES ($1)", run.Tick)
		return err
	}
	err = m.Handle("charge", once.Wrap(db, charge))
	check(err)
	err = m.Handle("prune", func(ctx context.Context, run *singleworker.Run) error {
		_, err := db.Prune(ctx, run.Group, run.Tick.AddDate(0, -1, 0))
		return err
	})
	check(err)
	check(m.Schedule(singleworker.Job{Name: "charge", Schedule: "0 0 3 * * ?"}))
	check(m.Schedule(singleworker.Job{Name: "prune", Schedule: "@daily"}))
	check(m.Run(ctx))
}

// A long run commits page by page. The attempt after a crash goes on with the first page that is
// missing.
func ExampleStep() { //nolint:testableexamples // as above
	var db *once.DB // see the example of the package
	handler := func(ctx context.Context, run *singleworker.Run) error {
		for page := range 100 {
			err := once.Step(ctx, db, run, fmt.Sprintf("page-%d", page), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance * 1.01 WHERE page = $1", page)
				return err
			})
			if err != nil && !errors.Is(err, once.ErrDone) {
				return err
			}
		}
		return nil
	}
	job := singleworker.Job{Name: "interest", Schedule: "@monthly", Timeout: time.Hour}
	_, _ = handler, job
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
