package browser

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/swtest"
	"github.com/swjobs/singleworker/singleworker/web"
)

var shots = flag.String("browser.shots", "", "write screenshots to this directory")

// token is for actions.
const token = "a-token-for-the-browser"

// patience is as long as a scene may take on a machine that has much else to do.
const patience = 4 * time.Minute

// The pages, in a browser: their weight, whether anything complains, whether all can use them, and
// their reactions to events.
func TestBrowser(t *testing.T) {
	modules := installed(t)
	for _, n := range []int{3, 60, 500} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			opts := web.Options{Title: "billing", AllowActions: true, Token: token, Hosts: []string{"localhost"}}
			if n == 60 { // one with a run log, two without
				opts.History, opts.Group = pastOf(n), swtest.DefaultServerType
			}
			s := newScene(t, n, opts)
			s.run("suite.mjs", modules, n, s.heard)
		})
	}
}

// installed is where the modules are that suite.mjs needs.
func installed(t *testing.T) string {
	t.Helper()
	home, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	modules := cmp.Or(os.Getenv("BROWSER_MODULES"), filepath.Join(home, "singleworker-browser"))
	for _, module := range []string{"playwright-core", "axe-core"} {
		if _, err := os.Stat(filepath.Join(modules, "node_modules", module)); err != nil {
			t.Fatalf("%v: run integration/browser/install.sh", err)
		}
	}
	for _, program := range []string{"node", cmp.Or(os.Getenv("CHROMIUM"), "chromium")} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: run integration/browser/install.sh", err)
		}
	}
	return modules
}

// saying is a line of a script.
type saying struct {
	Failed, Ask, Page, Kind, Zoom string
	PaintMS                       int `json:"paint_ms"`
	ServerMS                      int `json:"server_ms"`
	Bytes, Sent, Rows, Drawn      int
	Long                          []int
}

// run runs a script in the browser, whose lines are heard and answered.
func (s *scene) run(script, modules string, n int, heard func(said saying, answer io.Writer)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	browser, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM"), "chromium"))
	if err != nil {
		s.Fatal(err)
	}
	suite := exec.CommandContext(ctx, "node", script)
	suite.Env = append(os.Environ(), "URL="+s.url, "JOBS="+strconv.Itoa(n), "TOKEN="+token, "OUT="+*shots, "MODULES="+modules, "CHROMIUM="+browser)
	suite.Stderr = os.Stderr
	in, err := suite.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	out, err := suite.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := suite.Start(); err != nil {
		s.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var said saying
		if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
			s.Errorf("%v: %s", err, lines.Bytes())
			continue
		}
		heard(said, in)
	}
	if err := suite.Wait(); err != nil || ctx.Err() != nil {
		s.Errorf("the suite: %v, %v", err, context.Cause(ctx))
	}
}

// heard is the suite's output and requests.
func (s *scene) heard(said saying, answer io.Writer) {
	s.Helper()
	what, of, _ := strings.Cut(said.Ask, " ")
	reply := ""
	switch what {
	case "":
		if said.Failed != "" {
			s.Error(said.Failed)
		} else {
			s.Logf("%-34s %-8s first paint %4d ms, of which the server %4d ms; %6d bytes, compressed %6d",
				said.Page, said.Kind, said.PaintMS, said.ServerMS, said.Bytes, said.Sent)
		}
		return
	case "hostile":
		reply = hostileName
	case "kill":
		s.instances[of].Kill()
	case "paused":
		status, err := s.client.Get(s.Context(), of)
		if err != nil {
			s.Error(err)
		}
		if status.Paused != nil {
			reply = status.Paused.By
		}
	}
	fmt.Fprintln(answer, reply)
}
