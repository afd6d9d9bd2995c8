package deploy

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// top is where the image is built: COPY takes files from there.
const top = "../.."

// readDockerfile parses the Dockerfile with the code that docker build uses, and returns its
// linter's findings.
func readDockerfile() (stages []instructions.Stage, warnings []string, err error) {
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		return nil, nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	for _, warning := range parsed.Warnings {
		warnings = append(warnings, warning.Short)
	}
	stages, _, err = instructions.Parse(parsed.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, _ []parser.Range) { warnings = append(warnings, rule+": "+message) },
	}))
	return stages, warnings, err
}

// build runs the commands that build the programs in the image.
func build() error {
	stages, _, err := readDockerfile()
	if err != nil {
		return err
	}
	found := false
	for _, command := range stages[0].Commands {
		run, ok := command.(*instructions.RunCommand)
		if !ok || !strings.Contains(run.CmdLine[0], "go build") {
			continue
		}
		cmd := exec.Command("sh", "-c", strings.Replace(run.CmdLine[0], "/out/", programs+"/", 1)) //nolint:noctx // TestMain has none
		cmd.Dir = top
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", run.CmdLine[0], err, out)
		}
		found = true
	}
	if !found {
		return errors.New("Dockerfile: no go build")
	}
	return nil
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	stages, warnings, err := readDockerfile()
	if err != nil || len(warnings) > 0 || len(stages) != 2 {
		t.Fatalf("%d stages, warnings %q, %v", len(stages), warnings, err)
	}
	var user string
	var entrypoint, copied []string
	for _, command := range stages[1].Commands {
		switch command := command.(type) {
		case *instructions.UserCommand:
			user = command.User
		case *instructions.EntrypointCommand:
			if command.PrependShell {
				t.Error("ENTRYPOINT needs a shell, and signals would end there")
			}
			entrypoint = command.CmdLine
		case *instructions.CopyCommand:
			copied = append(copied, command.SourcePaths...)
		}
	}
	if user != "65532:65532" {
		t.Errorf("USER %q", user)
	}
	if want := []string{"swctl", "guard", "--", "app"}; !slices.Equal(entrypoint, want) {
		t.Errorf("ENTRYPOINT %q, want %q", entrypoint, want)
	}
	if want := []string{"/out/swctl", "/out/app", "/out/swexporter"}; !slices.Equal(copied, want) {
		t.Errorf("COPY %q, want %q", copied, want)
	}
}

// The image has no C library and no loader.
func TestProgramsAreStatic(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"swctl", "app", "swexporter"} {
		file, err := elf.Open(filepath.Join(programs, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range file.Progs {
			if part.Type == elf.PT_INTERP {
				t.Errorf("%s needs a loader", name)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
