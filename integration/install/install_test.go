// Package install installs commands as users do, from a module proxy, which serves each module
// alone, without the files beside it in the clone.
package install

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const library = "github.com/swjobs/singleworker"

// outside is a program of a user, which needs the library and both modules for metrics and traces.
const outside = `package main

import (
	"fmt"

	"` + library + `/singleworker"
	"` + library + `/singleworker/otel"
	"` + library + `/singleworker/prom"
	"` + library + `/singleworker/runlog"
)

func main() {
	fmt.Printf("%T %T %T %T\n", singleworker.Config{}, otel.Options{}, prom.Collector{}, runlog.Entry{})
}
`

// TestInstall fails if a module of a command says replace or misses a requirement: go install
// refuses it then.
func TestInstall(t *testing.T) {
	work := readWorkspace(t)
	u := newUser(t, work)
	for _, command := range commands(t, work) {
		name := path.Base(command)
		t.Run(name, func(t *testing.T) {
			u.run(t, "go", "install", "-trimpath", command+"@"+work.version)
			if got := u.run(t, filepath.Join(u.bin, name), "-h"); !strings.Contains(got, "-zk ") {
				t.Errorf("%s -h prints %q, want the flag -zk in it", name, got)
			}
		})
	}
	t.Run("outside", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(u.dir, "main.go"), []byte(outside), 0o600); err != nil {
			t.Fatal(err)
		}
		u.run(t, "go", "mod", "init", "example.com/outside")
		for _, module := range []string{"", "/singleworker/otel", "/singleworker/prom"} {
			u.run(t, "go", "mod", "edit", "-require", library+module+"@"+work.version)
		}
		got := u.run(t, "go", "run", "-mod=mod", "-trimpath", ".")
		if want := "singleworker.Config otel.Options prom.Collector runlog.Entry\n"; !strings.HasSuffix(got, want) {
			t.Errorf("the program prints %q, want %q", got, want)
		}
	})
}

// A user has Go, a module proxy and no clone.
type user struct {
	dir, bin string
	env      []string
}

// newUser returns one whose proxy has the modules of the workspace. All others come from the cache
// of modules, or, if it lacks them, from the proxy that is configured.
func newUser(t *testing.T, work workspace) user {
	t.Helper()
	u := user{dir: t.TempDir(), bin: t.TempDir()}
	proxy := t.TempDir()
	for _, m := range work.modules {
		work.publish(t, proxy, m)
	}
	configured := strings.Fields(output(t, "go", "env", "GOMODCACHE", "GOPROXY"))
	u.env = append(os.Environ(), "GOENV=off", "GOWORK=off", "GOFLAGS=-modcacherw", "GOPRIVATE=", "GONOPROXY=", "GOVCS=*:off",
		"GOPROXY=file://"+proxy+",file://"+configured[0]+"/cache/download,"+configured[1],
		// No database has checksums of modules that nobody has published.
		"GOSUMDB=off",
		// The caller's cache of builds serves because of -trimpath, wherever the modules are. The
		// caller's cache of modules would keep the version.
		"GOMODCACHE="+t.TempDir(), "GOBIN="+u.bin, "CGO_ENABLED=0")
	return u
}

// run runs a program and returns its output.
func (u user) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = u.dir, u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// A workspace is the content of go.work.
type workspace struct {
	root    string   // the absolute directory of go.work
	version string   // the version of the library that the others require
	modules []string // their directories, from root
	files   []string // all that the repository has, or will have with the next commit, from root
}

func readWorkspace(t *testing.T) workspace {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var content struct {
		Use     []struct{ DiskPath string }
		Replace []struct {
			Old struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal([]byte(output(t, "go", "work", "edit", "-json", filepath.Join(root, "go.work"))), &content); err != nil {
		t.Fatal(err)
	}
	if len(content.Replace) != 1 || content.Replace[0].Old.Path != library || content.Replace[0].Old.Version == "" {
		t.Fatalf("go.work replaces %v, want one version of %s", content.Replace, library)
	}
	w := workspace{root: root, version: content.Replace[0].Old.Version}
	for _, use := range content.Use {
		w.modules = append(w.modules, path.Clean(use.DiskPath))
	}
	listed := output(t, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	w.files = strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00")
	return w
}

// commands returns the packages that users install: all programs of the workspace except examples
// and tests' own.
func commands(t *testing.T, work workspace) []string {
	t.Helper()
	programs := output(t, "env", "GOWORK="+filepath.Join(work.root, "go.work"),
		"go", "list", "-find", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "work")
	found := slices.DeleteFunc(strings.Fields(programs), regexp.MustCompile("/(sample|integration|internal)/").MatchString)
	for _, name := range []string{"swctl", "swctl-sql", "swexporter"} {
		if !slices.ContainsFunc(found, func(command string) bool { return path.Base(command) == name }) {
			t.Errorf("commands are %q, want also %s", found, name)
		}
	}
	return found
}

// publish writes a module's files as the go command wants them from a proxy.
func (w workspace) publish(t *testing.T, proxy, module string) {
	t.Helper()
	name := path.Join(library, module)
	dir := filepath.Join(proxy, name, "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(w.root, module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		"list":              w.version + "\n",
		w.version + ".info": fmt.Sprintf(`{"Version": %q}`, w.version),
		w.version + ".mod":  string(mod),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(dir, w.version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(archive)
	for _, file := range w.files {
		if w.module(file) == module {
			w.add(t, z, file, name+"@"+w.version+"/"+strings.TrimPrefix(file, module+"/"))
		}
	}
	if err := errors.Join(z.Close(), archive.Close()); err != nil {
		t.Fatal(err)
	}
}

// module returns the directory of the innermost module that has a file.
func (w workspace) module(file string) string {
	dir := path.Dir(file)
	for dir != "." && !slices.Contains(w.files, dir+"/go.mod") {
		dir = path.Dir(dir)
	}
	return dir
}

// add copies a file into an archive. It leaves out those that were removed since the last commit,
// and links, which modules do not have.
func (w workspace) add(t *testing.T, z *zip.Writer, file, name string) {
	t.Helper()
	info, err := os.Lstat(filepath.Join(w.root, file))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return
	}
	content, err := os.ReadFile(filepath.Join(w.root, file))
	if err != nil {
		t.Fatal(err)
	}
	inside, err := z.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inside.Write(content); err != nil {
		t.Fatal(err)
	}
}

// output returns the output of a program that runs in this directory.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &problems)
	}
	return string(out)
}
