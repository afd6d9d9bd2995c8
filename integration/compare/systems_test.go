package compare

import (
	"archive/zip"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// work is a system's task.
type work struct {
	jobs   int
	period time.Duration
	length time.Duration // of a run
}

// A system starts its server for a test, and returns how to start a process of an id that does the
// work and writes to the ledger.
type system struct {
	name  string
	serve func(t *testing.T, w work) func(id, ledger string) *exec.Cmd
}

// systems are those that are compared.
func systems(programs string) []system {
	return []system{
		{"singleworker", func(t *testing.T, w work) func(id, ledger string) *exec.Cmd {
			t.Helper()
			return goWorker(programs, "singleworker", zkserver.Start(t).Addr(), w)
		}},
		{"gocron", func(t *testing.T, w work) func(id, ledger string) *exec.Cmd {
			t.Helper()
			return goWorker(programs, "gocron", startRedis(t), w)
		}},
		{"river", func(t *testing.T, w work) func(id, ledger string) *exec.Cmd {
			t.Helper()
			url := fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s", role, startPostgres(t), role)
			prepare := goWorker(programs, "river", url, work{jobs: 0, period: time.Second})("prepare", "/dev/null")
			if out, err := prepare.CombinedOutput(); err != nil {
				t.Fatalf("migrate: %v\n%s", err, out)
			}
			return goWorker(programs, "river", url, w)
		}},
		{"quartz", quartz(programs, 10, 1)},
		{"quartz-tuned", quartz(programs, 25, 50)},
	}
}

func goWorker(programs, system, addr string, w work) func(id, ledger string) *exec.Cmd {
	return func(id, ledger string) *exec.Cmd {
		return exec.Command(filepath.Join(programs, "worker"), "-system", system, "-addr", addr, "-id", id, //nolint:noctx // it ends with the test
			"-jobs", strconv.Itoa(w.jobs), "-period", w.period.String(), "-length", w.length.String(), "-ledger", ledger)
	}
}

// quartz has as many threads, and acquires as many triggers at once.
func quartz(programs string, threads, batch int) func(t *testing.T, w work) func(id, ledger string) *exec.Cmd {
	return func(t *testing.T, w work) func(id, ledger string) *exec.Cmd {
		t.Helper()
		port := startPostgres(t)
		createTables(t, port)
		command := func(id, ledger string, more ...string) *exec.Cmd {
			args := append([]string{
				"-Xmx128m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
				"-cp", programs + ":" + classPath, "Worker", fmt.Sprintf("jdbc:postgresql://127.0.0.1:%d/%s", port, role), id,
				strconv.Itoa(w.jobs), strconv.Itoa(int(w.period.Seconds())), ledger,
				strconv.Itoa(int(w.length.Milliseconds())), strconv.Itoa(threads), strconv.Itoa(batch),
			}, more...)
			return exec.Command("java", args...) //nolint:noctx // it ends with the test
		}
		if out, err := command("prepare", "/dev/null", "prepare").CombinedOutput(); err != nil {
			t.Fatalf("store jobs: %v\n%s", err, out)
		}
		return func(id, ledger string) *exec.Cmd { return command(id, ledger) }
	}
}

// createTables runs the script that comes with Quartz. It drops tables first that are not there, so
// it always says that there were errors.
func createTables(t *testing.T, port int) {
	t.Helper()
	jar, err := zip.OpenReader(jars + "/quartz2.jar")
	if err != nil {
		t.Fatal(err)
	}
	defer jar.Close()
	script, err := jar.Open("org/quartz/impl/jdbcjobstore/tables_postgres.sql")
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	psql := exec.CommandContext(t.Context(), "psql", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", role, role)
	// Several processes that start on an empty table of locks fail on each other's rows.
	const locks = "INSERT INTO qrtz_locks VALUES ('" + role + "', 'TRIGGER_ACCESS'), ('" + role + "', 'STATE_ACCESS');"
	psql.Stdin = io.MultiReader(script, strings.NewReader(locks))
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
}

// Debian's packages of Quartz.
const (
	jars      = "/usr/share/java"
	classPath = jars + "/quartz2.jar:" + jars + "/HikariCP.jar:" + jars + "/postgresql.jar:" + jars + "/slf4j-api.jar:" + jars + "/slf4j-simple.jar"
)

// build builds the workers, and returns their directory.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./worker"),
		exec.CommandContext(t.Context(), "javac", "-cp", classPath, "-d", dir, "quartz/Worker.java"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	return dir
}
