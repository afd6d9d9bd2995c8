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

// stores are the databases that have run logs, by the schemes of their URLs.
var stores = map[string]commands.StoreOpener{
	"postgres":   openStore(postgres, sqlstore.Postgres),
	"postgresql": openStore(postgres, sqlstore.Postgres),
	"mysql":      openStore(mySQL, sqlstore.MySQL),
	"mariadb":    openStore(mySQL, sqlstore.MySQL),
	"sqlite":     openSQLite,
}

// openStore opens a store in a database that text says how to open.
func openStore(text func(*url.URL) (driver, text string, err error), d sqlstore.Dialect) commands.StoreOpener {
	return func(address *url.URL) (runlog.Store, error) {
		driver, text, err := text(address)
		if err != nil {
			return nil, err
		}
		db, err := open(driver, text)
		if err != nil {
			return nil, err
		}
		return sqlstore.New(db, d)
	}
}

// postgres is what libpq would open: PGPASSFILE, sslmode and the rest count as there.
func postgres(address *url.URL) (driver, text string, err error) {
	return "pgx", address.String(), nil
}

// mySQL is mysql://USER:PASSWORD@HOST:PORT/DATABASE, with the parameters of its Go driver,
// such as tls=true. A socket is mysql://USER@/DATABASE?socket=PATH.
func mySQL(address *url.URL) (driver, text string, err error) {
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
		return "", "", errors.New("want mysql://USER@HOST:PORT/DATABASE")
	}
	dsn := c.FormatDSN()
	if text := params.Encode(); text != "" {
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		dsn += separator + text
	}
	return "mysql", dsn, nil
}

// openSQLite opens sqlite:FILE.
func openSQLite(address *url.URL) (runlog.Store, error) {
	path, err := sqlitePath(address)
	if err != nil {
		return nil, err
	}
	if err := private(path); err != nil {
		return nil, err
	}
	// Transactions begin as writers, which wait for each other; readers wait for nobody.
	params := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}
	db, err := open("sqlite", sqliteText(path, params))
	if err != nil {
		return nil, err
	}
	return sqlstore.New(db, sqlstore.SQLite)
}

func sqlitePath(address *url.URL) (string, error) {
	path := address.Opaque
	if path == "" {
		path = address.Path
	}
	if path == "" || address.Host != "" {
		return "", errors.New("want sqlite:FILE, such as sqlite:/var/lib/swctl/runlog.db")
	}
	return path, nil
}

func sqliteText(path string, params url.Values) string {
	return (&url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: params.Encode()}).String()
}

// sqliteMode lets the group read a log: errors of handlers are for those who may read logs.
const sqliteMode = 0o640

// private creates the file of a database that does not exist yet, which SQLite would let everybody
// read. SQLite gives its other files the mode of this one.
func private(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, sqliteMode) // the operator names it
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
func open(driver, text string) (*sql.DB, error) {
	db, err := sql.Open(driver, text)
	if err != nil {
		return nil, fmt.Errorf("the URL is not one that the driver %s understands", driver)
	}
	db.SetMaxOpenConns(maxConnections)
	return db, nil
}

// maxConnections suffice for a reader and some queries.
const maxConnections = 4
