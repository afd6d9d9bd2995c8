package latch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/latch"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

var _ gocron.Elector = (*latch.Latch)(nil)

var errPaper = errors.New("out of paper")

// group is a server and contenders whose terms are recorded.
type group struct {
	*zkdev.Server

	t *testing.T

	mu    sync.Mutex
	notes []string
}

func newGroup(t *testing.T) *group {
	t.Helper()
	return &group{t: t, Server: zkdev.Start(t, zkdev.Config{NoListen: true})}
}

func (g *group) note(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notes = append(g.notes, text)
}

func (g *group) wantNotes(want ...string) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.notes, want) {
		g.t.Errorf("noted:\n  %s\nwant:\n  %s", strings.Join(g.notes, "\n  "), strings.Join(want, "\n  "))
	}
}

func (g *group) latch(id string, changes ...func(*latch.Config)) *latch.Latch {
	g.t.Helper()
	cfg := latch.Config{
		Servers: "zk1", Path: "/app/leader", ID: id, SessionTimeout: 4 * time.Second,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := g.Client(id).Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return roomtest.Settle(conn), nil
		},
		Hooks: latch.Hooks{
			OnGained: func(latch.Term) { g.note(id + " gained") },
			OnLost:   func(_ latch.Term, cause error) { g.note(id + " lost: " + cause.Error()) },
		},
	}
	for _, change := range changes {
		change(&cfg)
	}
	l, err := latch.New(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	return l
}

// background calls run on a goroutine. stop cancels its context and returns its error; the end of
// the test calls stop, too.
func (g *group) background(run func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = run(ctx)
	}()
	stop = func() error {
		cancel()
		<-ended
		return err
	}
	g.t.Cleanup(func() { _ = stop() })
	return stop
}

func bubble(t *testing.T, f func(g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newGroup(t)) })
}

func TestContendersLeadInOrder(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *group) {
		t := g.t
		a, b := g.latch("a"), g.latch("b")
		stopA := g.background(a.Run)
		first, err := a.Await(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g.background(b.Run)
		time.Sleep(time.Second)
		if _, held := b.Held(); held || !errors.Is(b.IsLeader(t.Context()), latch.ErrNotLeader) || a.IsLeader(t.Context()) != nil {
			t.Errorf("b holds: %v; IsLeader of a: %v, of b: %v", held, a.IsLeader(t.Context()), b.IsLeader(t.Context()))
		}
		list, err := b.Participants(t.Context())
		if err != nil || len(list) != 2 || list[0].ID != "a" || list[1].ID != "b" ||
			list[0].Node != first.Node || list[0].Token != first.Token {
			t.Errorf("Participants = %+v, %v; want a, with %+v, and b", list, err, first)
		}
		if err := stopA(); err != nil {
			t.Error(err)
		}
		at := time.Now()
		second, err := b.Await(t.Context())
		if took := time.Since(at); err != nil || second.Token <= first.Token || took > 50*time.Millisecond {
			t.Errorf("b leads with %+v, %v after %v; want a token beyond %d within 50ms", second, err, took, first.Token)
		}
		if leader, err := b.Leader(t.Context()); leader.ID != "b" || err != nil {
			t.Errorf("Leader = %+v, %v; want b", leader, err)
		}
		g.wantNotes("a gained", "a lost: latch: stopped", "b gained")
	})
}

func TestLeadQueuesAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *group) {
		t := g.t
		for _, id := range []string{"a", "b"} {
			l := g.latch(id)
			g.background(func(ctx context.Context) error {
				return l.Lead(ctx, func(ctx context.Context) error {
					held, ok := l.Held()
					if term, found := latch.TermFrom(ctx); !found || !ok || term != held {
						t.Errorf("the context has %+v, %v; held: %+v, %v", term, found, held, ok)
					}
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
					}
					return nil
				})
			})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2500 * time.Millisecond)
		g.wantNotes("a gained", "a lost: latch: leadership resigned", "b gained", "b lost: latch: leadership resigned", "a gained")
	})
}

func TestLeadReturnsTheFunctionsError(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *group) {
		t := g.t
		a, b := g.latch("a"), g.latch("b")
		ended := make(chan error)
		go func() {
			ended <- a.Lead(t.Context(), func(context.Context) error {
				time.Sleep(time.Second)
				return errPaper
			})
		}()
		time.Sleep(500 * time.Millisecond)
		g.background(b.Run)
		if err := <-ended; !errors.Is(err, errPaper) {
			t.Errorf("Lead = %v, want %v", err, errPaper)
		}
		if list, err := b.Participants(t.Context()); len(list) != 1 || list[0].ID != "b" || err != nil {
			t.Errorf("contenders %+v, %v; want b alone", list, err)
		}
		if _, err := a.Participants(t.Context()); !errors.Is(err, latch.ErrNotRunning) {
			t.Errorf("Participants after Lead: %v, want ErrNotRunning", err)
		}
		if _, err := a.Await(t.Context()); !errors.Is(err, latch.ErrStopped) {
			t.Errorf("Await after Lead: %v, want ErrStopped", err)
		}
		if err := a.Run(t.Context()); !errors.Is(err, latch.ErrStarted) {
			t.Errorf("Run after Lead: %v, want ErrStarted", err)
		}
	})
}

// OnLost may wait for work to end, even after OnGained or Lead's function panicked.
func TestOnLostIsCalledAfterPanic(t *testing.T) {
	t.Parallel()
	for what, inOnGained := range map[string]bool{"in OnGained": true, "in the function": false} {
		bubble(t, func(g *group) {
			a := g.latch("a", func(c *latch.Config) {
				c.Hooks.OnGained = func(latch.Term) {
					g.note("a gained")
					if inOnGained {
						panic("glass")
					}
				}
				c.Hooks.OnLost = func(_ latch.Term, cause error) {
					time.Sleep(time.Second)
					g.note("a lost: " + cause.Error())
				}
			})
			ended := make(chan error)
			go func() {
				time.Sleep(500 * time.Millisecond)
				ended <- a.Lead(g.t.Context(), func(context.Context) error {
					time.Sleep(time.Second)
					panic("glass")
				})
			}()
			time.Sleep(time.Second)
			g.background(g.latch("b").Run)
			var glass *task.PanicError
			if err := <-ended; !errors.As(err, &glass) || glass.Value != "glass" {
				g.t.Errorf("%s: Lead = %v, want the panic", what, err)
			}
			time.Sleep(time.Second)
			g.wantNotes("a gained", "a lost: latch: leadership resigned", "b gained")
		})
	}
}

// When leadership is lost, Lead cancels the function, waits for it, and calls it again later.
func TestLeadCancelsFunctionOnLoss(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *group) {
		t := g.t
		a := g.latch("a")
		calls := 0
		stop := g.background(func(ctx context.Context) error {
			return a.Lead(ctx, func(ctx context.Context) error {
				calls++
				<-ctx.Done()
				if calls == 1 && !errors.Is(context.Cause(ctx), latch.ErrSuspended) {
					t.Errorf("ended for %v, want ErrSuspended", context.Cause(ctx))
				}
				if _, held := a.Held(); held {
					t.Errorf("held when the context has ended")
				}
				<-time.After(time.Minute) // slow
				return errPaper           // too late to matter
			})
		})
		time.Sleep(time.Second)
		g.Client("a").Disconnect()
		time.Sleep(30 * time.Second)
		g.wantNotes("a gained")
		time.Sleep(31 * time.Second)
		g.wantNotes("a gained", "a lost: latch: connection to ZooKeeper lost", "a gained")
		if err := stop(); err != nil || calls != 2 {
			t.Errorf("Lead = %v after %d calls, want nil after 2", err, calls)
		}
	})
}

func TestParticipantsReturnsWhenContextEnds(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *group) {
		t := g.t
		a := g.latch("a")
		if _, err := a.Leader(t.Context()); !errors.Is(err, latch.ErrNotRunning) {
			t.Errorf("Leader before Run: %v, want ErrNotRunning", err)
		}
		g.Client("a").Partition()
		defer g.Client("a").Heal()
		g.background(a.Run)
		synctest.Wait()
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, enough)
		defer cancel()
		if _, err := a.Participants(ctx); !errors.Is(err, enough) {
			t.Errorf("Participants = %v, want %v", err, enough)
		}
	})
}

func TestParticipantsReportsConnectionError(t *testing.T) {
	t.Parallel()
	bubble(t, func(g *group) {
		refused := errors.New("connection refused")
		a := g.latch("a", func(c *latch.Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, refused }
		})
		g.background(a.Run)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
		defer cancel()
		_, err := a.Participants(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, refused) {
			g.t.Errorf("Participants = %v, want DeadlineExceeded and %v", err, refused)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := latch.Config{Servers: "zk1", Path: "/app/leader"}
	if _, err := latch.New(good); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(c *latch.Config, value string){
		"Servers": func(c *latch.Config, value string) { c.Servers = value },
		"Path":    func(c *latch.Config, value string) { c.Path = value },
		"Auth":    func(c *latch.Config, value string) { c.Auth = value },
		"ACL":     func(c *latch.Config, value string) { c.ACL = value },
		"ID":      func(c *latch.Config, value string) { c.ID = strings.Repeat(value, 100) },
		"SessionTimeout": func(c *latch.Config, value string) {
			c.SessionTimeout, _ = time.ParseDuration(value)
		},
	} {
		for _, value := range map[string][]string{
			"Servers":        {"", "zk1:x", "zk1//a"},
			"Path":           {"", "/", "app", "/app/", "//app", "/app/../x", "/a\x00b", "/zookeeper", "/zookeeper/a"},
			"Auth":           {"app", ":secret"},
			"ACL":            {"world", "world:anyone:x", "auth::r"},
			"ID":             {"elevenbytes"},
			"SessionTimeout": {"-1s", "999ms", "61m"},
		}[field] {
			cfg := good
			change(&cfg, value)
			_, err := latch.New(cfg)
			var refused *invalid.FieldError
			if !errors.As(err, &refused) || refused.Field != field {
				t.Errorf("%s %q: %v, want an *invalid.FieldError of %s", field, value, err, field)
			}
			if field == "Auth" && err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%v shows the password", err)
			}
		}
	}
}

// Nothing that prints a Config prints the password.
func TestConfigHidesAuth(t *testing.T) {
	t.Parallel()
	cfg := latch.Config{Servers: "zk1:2181", Auth: "ops:hunter2"}
	var printed strings.Builder
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&printed, format+format, cfg, &cfg)
		fmt.Fprintf(&printed, format, struct{ Config latch.Config }{cfg})
	}
	slog.New(slog.NewTextHandler(&printed, nil)).Info("text", "cfg", cfg, "p", &cfg)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("json", "cfg", cfg, "p", &cfg)
	if text := printed.String(); strings.Contains(text, "hunter2") || strings.Count(text, "zk1:2181") != 19 || strings.Count(text, "(not shown)") != 19 {
		t.Error(text)
	}
}
