// Package child is for demonstrations with real processes: a program starts itself again, reads its
// children's output, sends them lines, and stops and kills them with signals.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// command as the first argument, followed by an id, a connect string and a directory, makes the
// program a child.
const command = "instance"

// errFailed is returned after the reason has been printed.
var errFailed = errors.New("failed")

// started reports whether this process is a child.
func started() bool { return len(os.Args) == 5 && os.Args[1] == command }

// RunTests is the TestMain of a demonstration. [Start] starts the test binary again: in a child
// RunTests calls main, otherwise it runs the tests and exits.
func RunTests(tests func() int, main func()) {
	if started() {
		main()
		return
	}
	os.Exit(tests())
}

// Serve runs the application of a child until hear returns. hear reads the parent's lines, so it
// returns when the parent has ended, for whatever reason.
func Serve(run func(ctx context.Context) error, hear func(told io.Reader)) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		hear(os.Stdin)
	}()
	return run(ctx)
}

// A Scene is the parent's part. All files are in dir, which is initially empty and removed at the
// end. say prints a line with the time.
type Scene func(ctx context.Context, dir string, say func(format string, args ...any)) (verdict string, err error)

// Main is the main function of a demonstration. In a child, it calls instance with the arguments of
// [Start]. Otherwise it runs the scene; the last line is the verdict, or FAIL and the reason, after
// the children's logs.
func Main(name string, instance func(id, zk, dir string) error, play Scene) {
	var err error
	switch {
	case started():
		err = instance(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) > 1:
		err = fmt.Errorf("unexpected %q: start it without arguments", os.Args[1])
	default:
		err = run(name, os.Stdout, play)
	}
	if err != nil && !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, name+":", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

func run(name string, out io.Writer, play Scene) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	begun := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%4.1f s  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	verdict, err := play(ctx, dir, say)
	if err != nil {
		PrintLogs(out, dir)
		fmt.Fprintln(out, "FAIL ", err)
		return errFailed
	}
	fmt.Fprintln(out, verdict)
	return nil
}

// PrintLogs prints the logs of the children before they are removed.
func PrintLogs(out io.Writer, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is valid
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			text = []byte(err.Error() + "\n")
		}
		fmt.Fprintf(out, "%s:\n%s", filepath.Base(log), text)
	}
}
