package main

import (
	"os"
	"strings"
	"testing"
)

// The README shows this program as it is compiled.
func TestReadmeShowsThisProgram(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "\n") // after the package comment
	if !strings.Contains(string(readme), "```go\n"+code+"```\n") {
		t.Errorf("README.md does not show this program:\n%s", code)
	}
}
