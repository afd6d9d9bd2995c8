package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/swjobs/singleworker/cmd/swctl/internal/commands"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/sqlstore"
)

// stores are the databases, by the schemes of their URLs.
var stores = map[string]commands.StoreOpener{
	"postgres":   openPostgres,
	"postgresql": openPostgres,
	"mysql":      openMySQL,
	"mariadb":    openMySQL,
	"sqlite":     openSQLite,
}

// openPostgres opens what libpq would: PGPASSFILE, sslmode and the rest count as there.
func openPostgres(address *url.URL) (runlog.Store, error) {
	return open("pgx", address.String(), sqlstore.Postgres)
}

// openMySQL opens mysql://USER:PASSWORD@HOST:PORT/DATABASE, with the parameters of its Go driver,
// such as tls=true. A socket is mysql://USER@/DATABASE?socket=PATH.
func openMySQL(address *url.URL) (runlog.Store, error) {
	params := address.Query()
	socket := params.Get("socket")
	params.Del("socket")
	password, _ := address.User.Password()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = address.User.Username(), password, strings.TrimPrefix(address.Path, "/")
	if c.Net, c.Addr = "tcp", address.Host; socket != "" {
		c.Net, c.Addr = "unix", socket
	}
	if c.DBName == "" || c.Addr == "" {
		return nil, errors.New("want mysql://USER@HOST:PORT/DATABASE")
	}
	dsn := c.FormatDSN()
	if text := params.Encode(); text != "" {
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		dsn += separator + text
	}
	return open("mysql", dsn, sqlstore.MySQL)
}

// openSQLite opens sqlite:FILE.
func openSQLite(address *url.URL) (runlog.Store, error) {
	path := address.Opaque
	if path == "" {
		path = address.Path
	}
	if path == "" || address.Host != "" {
		return nil, errors.New("want sqlite:FILE, such as sqlite:/var/lib/swctl/runlog.db")
	}
	if err := private(path); err != nil {
		return nil, err
	}
	// Transactions begin as writers, which wait for each other; readers wait for nobody.
	params := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}
	return open("sqlite", (&url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: params.Encode()}).String(), sqlstore.SQLite)
}

// sqliteMode lets the group read a log: errors of handlers are for those who may read logs.
const sqliteMode = 0o640

// private creates the file of a database that does not exist yet, which SQLite would let everybody
// read. SQLite gives its other files the mode of this one.
func private(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, sqliteMode) //nolint:gosec // the operator names it
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return file.Close()
}

// open opens a database, without connecting. The driver's errors may have the password of the text,
// so they are left out.
func open(driver, text string, d sqlstore.Dialect) (runlog.Store, error) {
	db, err := sql.Open(driver, text)
	if err != nil {
		return nil, fmt.Errorf("the URL is not one that %v understands", d)
	}
	db.SetMaxOpenConns(maxConnections)
	return sqlstore.New(db, d)
}

// maxConnections suffice for a reader and some queries.
const maxConnections = 4
