package diff

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// clientTimeout limits one run of a third-party client.
const clientTimeout = 2 * time.Minute

// TestZkCli runs one script with ZooKeeper's command line client on zkdev and on a real server. The
// output must be the same.
func TestZkCli(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("testdata/zkcli.txt")
	if err != nil {
		t.Fatal(err)
	}
	server, dev := zkserver.Start(t), zkdev.Start(t, zkdev.Config{})
	want, got := zkCli(t, server.Addr(), script), zkCli(t, dev.Addr(), script)
	if got != want {
		t.Errorf("on zkdev:\n%s\non ZooKeeper:\n%s", got, want)
	}
	for _, line := range []string{"[eph, seq-0000000001, seq-0000000002]", "'digest,'me:", "Node does not exist: /nope", "version No is not valid : /a"} {
		if !strings.Contains(want, line) {
			t.Errorf("the script does not get far: no %q in\n%s", line, want)
		}
	}
}

// watcher are the lines that zkCli prints when an event arrives, which may be at any time.
var watcher = regexp.MustCompile(`(?m)^(WATCHER::|WatchedEvent .*|)\n`)

// mapped are the parts of zkCli's output that differ from run to run.
var mapped = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDR"},
	{regexp.MustCompile(`time = .*`), "time = T"},
	{regexp.MustCompile(`ephemeralOwner = 0x[0-9a-f]{9,}`), "ephemeralOwner = SESSION"},
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d.*\n`), ""},
}

func zkCli(t *testing.T, addr string, script []byte) string {
	t.Helper()
	output := string(run(t, string(script), "java",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", jars(),
		"org.apache.zookeeper.ZooKeeperMain", "-server", addr))
	if event := "WatchedEvent state:SyncConnected type:NodeDataChanged path:/a\n"; strings.Count(output, event) != 1 {
		t.Errorf("on %s: not one event of the watch in\n%s", addr, output)
	}
	output = watcher.ReplaceAllString(output, "")
	for _, m := range mapped {
		output = m.pattern.ReplaceAllString(output, m.with)
	}
	return output
}

// jars is the class path of ZooKeeper's client, as integration/zookeeper.sh finds it.
func jars() string {
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		return filepath.Join(home, "lib", "*")
	}
	return "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
}

// TestKazoo runs recipes of the Python client on zkdev.
func TestKazoo(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	output := string(run(t, "", pythonWithKazoo(t), "testdata/recipes.py", server.Addr()))
	for _, recipe := range []string{"lock", "election", "children_watch", "data_watch", "transaction", "acl", "errors", "others"} {
		if !strings.Contains(output, "ok "+recipe+"\n") {
			t.Errorf("%s does not work:\n%s", recipe, output)
		}
	}
}

// pythonWithKazoo finds a Python that has the client. Debian installs it for the system's Python.
func pythonWithKazoo(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import kazoo").Run() == nil {
			return python
		}
	}
	t.Fatal("no python3 with kazoo: as root, apt-get install --no-install-recommends python3-kazoo")
	return ""
}

// run runs a program that must succeed and returns its output.
func run(t *testing.T, input, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
	return output
}
