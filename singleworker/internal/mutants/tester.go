package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// outcome is the fate of a mutant.
type outcome string

const (
	killed     outcome = "killed"
	hung       outcome = "hung" // killed by the time limit of the tests
	survived   outcome = "LIVES"
	equivalent outcome = "equivalent" // lives, with a reason
	refuted    outcome = "REFUTED"    // killed although its list calls it equivalent
	broken     outcome = "BROKEN"     // does not compile, or the go command failed
)

func (o outcome) isExpected(m mutant) bool {
	return m.reason == "" && (o == killed || o == hung) || m.reason != "" && o == equivalent
}

// verdict is an outcome with its evidence.
type verdict struct {
	outcome outcome
	by      string // the test that failed first
	place   string
}

// tester runs tests. Its methods may be called by several goroutines.
type tester struct {
	dir   string // for overlays
	limit time.Duration
}

// try runs the tests of one mutant, until one fails.
func (t tester) try(ctx context.Context, number int, m mutant) verdict {
	source, err := os.ReadFile(filepath.FromSlash(m.file))
	if err != nil {
		return verdict{outcome: broken, by: err.Error()}
	}
	mutated, line, err := m.apply(string(source))
	if err != nil {
		return verdict{outcome: broken, by: err.Error()}
	}
	overlay, err := t.overlay(number, m.file, mutated)
	if err != nil {
		return verdict{outcome: broken, by: err.Error()}
	}
	v := t.run(ctx, overlay, m.tests)
	switch {
	case m.reason != "" && v.outcome == survived:
		v.outcome = equivalent
	case m.reason != "" && (v.outcome == killed || v.outcome == hung):
		v.outcome = refuted
	}
	v.place = m.place(line)
	return v
}

// overlay writes a file for go test -overlay.
func (t tester) overlay(number int, file, text string) (string, error) {
	original, err := filepath.Abs(filepath.FromSlash(file))
	if err != nil {
		return "", err
	}
	replacement := filepath.Join(t.dir, fmt.Sprintf("%d.go", number))
	if err := os.WriteFile(replacement, []byte(text), 0o600); err != nil { //nolint:gosec // below our own directory
		return "", err
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(t.dir, fmt.Sprintf("%d.json", number))
	return name, os.WriteFile(name, data, 0o600)
}

var (
	failure  = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	running  = regexp.MustCompile(`(?m)^running tests:\n\s*(\S+)`)
	collapse = regexp.MustCompile(`(?m)^(panic|fatal error): (.*)`)
)

// run runs commands until one fails. Each is a package below singleworker and flags of its test
// binary, which is built once.
func (t tester) run(ctx context.Context, overlay string, commands []string) verdict {
	binaries, err := os.MkdirTemp(t.dir, "")
	if err != nil {
		return verdict{outcome: broken, by: err.Error()}
	}
	defer os.RemoveAll(binaries)
	built := make(map[string]string)
	for _, command := range commands {
		words := strings.Fields(command)
		dir := filepath.Join("singleworker", filepath.FromSlash(words[0]))
		if built[dir] == "" {
			built[dir] = filepath.Join(binaries, fmt.Sprintf("%d.test", len(built)))
			args := []string{"test", "-c", "-vet=off", "-o", built[dir]}
			if overlay != "" {
				args = append(args, "-overlay", overlay)
			}
			args = append(args, "./"+filepath.ToSlash(dir))
			output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
			if err != nil {
				return verdict{outcome: broken, by: fmt.Sprintf("%v: %s", err, output)}
			}
		}
		if v := t.test(ctx, dir, built[dir], words[1:]); v.outcome != survived {
			return v
		}
	}
	return verdict{outcome: survived}
}

// itself matches the tests that plant other mutants: they say nothing about these.
const itself = "^(TestMutants.*|TestBreaches.*)$"

// test runs a test binary.
func (t tester) test(ctx context.Context, dir, binary string, flags []string) verdict {
	args := []string{"-test.failfast", "-test.paniconexit0", "-test.timeout", t.limit.String(), "-test.skip", itself}
	cmd := exec.CommandContext(ctx, binary, append(args, flags...)...) //nolint:gosec // built just now
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	text := string(output)
	switch {
	case err == nil:
		return verdict{outcome: survived}
	case strings.Contains(text, "panic: test timed out after"):
		return verdict{outcome: hung, by: first(running, text)}
	case failure.MatchString(text):
		return verdict{outcome: killed, by: first(failure, text)}
	case collapse.MatchString(text):
		return verdict{outcome: killed, by: first(collapse, text)}
	}
	return verdict{outcome: broken, by: fmt.Sprintf("%v: %s", err, text)}
}

func first(pattern *regexp.Regexp, text string) string {
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[len(found)-1]
}
