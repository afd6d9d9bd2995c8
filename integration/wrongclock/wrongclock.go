// Package wrongclock builds programs whose wall clock a test can set, of each process by itself: a
// Go program asks the kernel for the time, so nothing between the two can lie to it, and to set the
// machine's clock would change it for everybody.
package wrongclock

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Env names the file with the offset of a process's wall clock, which Set writes.
const Env = "SINGLEWORKER_WRONG_CLOCK"

// offsetSource is added to package time.
const offsetSource = `package time

import (
	"syscall"
	"unsafe"
)

var wrongOffset = mapWrongOffset()

func mapWrongOffset() *int64 {
	path, ok := syscall.Getenv("` + Env + `")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*int64)(unsafe.Pointer(&page[0]))
}

func wrongNow(sec int64, nsec int32, mono int64) (int64, int32, int64) {
	total := int64(nsec) + *wrongOffset
	over := total / 1e9
	if total -= over * 1e9; total < 0 {
		over, total = over-1, total+1e9
	}
	return sec + over, int32(total), mono
}
`

// Build builds a package's program into dir, with a standard library whose wall clock Set can set.
func Build(tb testing.TB, dir, pkg string) (program string) {
	tb.Helper()
	output := func(name string, args ...string) string {
		tb.Helper()
		cmd := exec.CommandContext(tb.Context(), name, args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		text, err := cmd.CombinedOutput()
		if err != nil {
			tb.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
		}
		return strings.TrimSpace(string(text))
	}
	source := filepath.Join(output("go", "env", "GOROOT"), "src", "time")
	original, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		tb.Fatal(err)
	}
	now := regexp.MustCompile(`(func Now\(\) Time \{\n\tsec, nsec, mono := )((?:runtimeNow|now)\(\))`)
	if n := len(now.FindAll(original, -1)); n != 1 {
		tb.Fatalf("%s: time.Now is not as this test knows it (%d matches): teach it this version of Go", source, n)
	}
	replace := make(map[string]string)
	for name, text := range map[string]string{
		"time.go":         now.ReplaceAllString(string(original), "${1}wrongNow(${2})"),
		"wrong_offset.go": offsetSource,
	} {
		path := filepath.Join(dir, name)
		write(tb, path, text)
		replace[filepath.Join(source, name)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		tb.Fatal(err)
	}
	write(tb, filepath.Join(dir, "overlay.json"), string(overlay))
	program = filepath.Join(dir, filepath.Base(pkg))
	output("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, pkg)
	return program
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// Set sets how far the wall clock of the processes with that file is ahead. It takes effect at
// once.
func Set(tb testing.TB, path string, ahead time.Duration) {
	tb.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0); err != nil {
		tb.Fatal(fmt.Errorf("clock: %w", err))
	}
}
