// Command swctl-sql is swctl with run logs in databases, and with the databases of applications
// that use package once: PostgreSQL, MySQL, MariaDB and SQLite. It is a module beside the library,
// so that nobody else links their drivers.
package main

import (
	_ "time/tzdata" // a slim container has no zone files, and jobs name zones

	"github.com/swjobs/singleworker/cmd/swctl/internal/commands"
)

func main() { commands.Main("swctl-sql", stores, markerDatabases) }
