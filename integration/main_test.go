package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// parallelTests is how many tests run at a time: they mostly wait for sessions to
// expire.
const parallelTests = "6"

func TestMain(m *testing.M) {
	if config, isChild := os.LookupEnv(childEnv); isChild {
		os.Exit(runChild(config))
	}
	flag.Parse()
	if !isFlagGiven("test.parallel") {
		_ = flag.Set("test.parallel", parallelTests)
	}
	code := zkserver.Main(m.Run)
	if err := sharedServer.end(); err != nil {
		fmt.Fprintln(os.Stderr, "shared server:", err)
		code = max(code, 1)
	}
	if err := os.RemoveAll(swctlBuild.dir); err != nil {
		fmt.Fprintln(os.Stderr, "swctl:", err)
		code = max(code, 1)
	}
	if leaked := leakedGoroutines(); leaked != "" {
		fmt.Fprintf(os.Stderr, "goroutines still run after all tests:\n\n%s\n", leaked)
		code = max(code, 1)
	}
	os.Exit(code)
}

func isFlagGiven(name string) (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// leakedGoroutines describes the goroutines, besides the calling one, that run code of this module
// or of the ZooKeeper client. It waits for those that are about to end.
func leakedGoroutines() (leaked string) {
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		stacks := strings.Split(allStacks(), "\n\n")[1:] // the first is ours
		leaked = strings.Join(slices.DeleteFunc(stacks, func(stack string) bool {
			return !strings.Contains(stack, "swjobs/singleworker") && !strings.Contains(stack, "go-zookeeper")
		}), "\n\n")
		if leaked == "" || time.Now().After(deadline) {
			return leaked
		}
	}
}

func allStacks() string {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return string(buf[:n])
		}
	}
}

// sharedServer serves every test that does not break the server. Each test has its own group there.
var sharedServer shared

type shared struct {
	start  sync.Once
	tb     packageTB
	server *zkserver.Server
}

// get starts the server on the first call.
func (s *shared) get(t *testing.T) *zkserver.Server {
	t.Helper()
	s.start.Do(func() {
		s.tb.init()
		started := make(chan struct{})
		go func() { // Start calls runtime.Goexit when it fails
			defer close(started)
			s.server = zkserver.Start(&s.tb)
		}()
		<-started
	})
	if s.server == nil {
		t.Fatal(s.tb.failure())
	}
	return s.server
}

func (s *shared) end() error {
	if s.tb.cancel == nil {
		return nil
	}
	s.tb.cancel()
	for _, f := range slices.Backward(s.tb.cleanups) {
		f()
	}
	return s.tb.failure()
}

// packageTB keeps a server running for all tests of the package.
type packageTB struct {
	testing.TB // nil: what a server needs of it is below

	ctx      context.Context //nolint:containedctx // what Context returns
	cancel   context.CancelFunc
	cleanups []func()

	mu     sync.Mutex
	errors []error
}

func (tb *packageTB) init() { tb.ctx, tb.cancel = context.WithCancel(context.Background()) }

func (*packageTB) Helper()                     {}
func (tb *packageTB) Context() context.Context { return tb.ctx }
func (tb *packageTB) Cleanup(f func())         { tb.cleanups = append(tb.cleanups, f) }
func (tb *packageTB) Failed() bool             { return tb.failure() != nil }

func (tb *packageTB) TempDir() string {
	dir, err := os.MkdirTemp("", "singleworker-test-")
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("%v", err)
		}
	})
	return dir
}

func (*packageTB) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (tb *packageTB) Errorf(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.errors = append(tb.errors, fmt.Errorf(format, args...))
}

func (tb *packageTB) Fatalf(format string, args ...any) {
	tb.Errorf(format, args...)
	runtime.Goexit()
}

func (tb *packageTB) failure() error {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return errors.Join(tb.errors...)
}

// fewerThreads keeps a child process modest: dozens of them share two cores.
func fewerThreads() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
}
