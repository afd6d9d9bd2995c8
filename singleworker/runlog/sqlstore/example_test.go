package sqlstore_test //nolint:testableexamples // the example needs a database

import (
	"context"
	"database/sql"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/sqlstore"
)

// A program keeps each run for a year in its own database. It imports the driver, here one of
// PostgreSQL.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres:///billing")
	check(err)
	store, err := sqlstore.New(db, sqlstore.Postgres)
	check(err)
	client, err := admin.Dial(ctx, admin.Config{Servers: "zk1:2181,zk2:2181,zk3:2181/prod", ServerType: "billing"})
	check(err)
	defer client.Close()
	check(runlog.Run(ctx, client, store, runlog.Options{Group: "billing", Keep: 365 * 24 * time.Hour}))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
