package roomtest

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Loop is a session's loop, whose notices are recorded. Set the funcs before Start; nil ones do
// nothing. They are called on the loop.
type Loop struct {
	*session.Loop
	Client *zkdev.Client
	Log    *Log

	OnEvent   func(ev zkconn.Event)
	OnNotice  func(n session.Notice)
	OnTurn    func()
	OnNext    func(other time.Duration) time.Duration // when to wake up, on Mono, at the latest at other
	OnSettled func() (done bool, err error)
	OnEnded   func()
	// Stop ends the context of Run, whose result is sent to Ended.
	Stop  context.CancelFunc
	Ended chan error

	g    *Group
	mu   sync.Mutex
	told []session.Notice
}

// NewLoop returns a loop with a separate client of the server; Start runs it.
func (g *Group) NewLoop(sid string) *Loop {
	l := &Loop{Client: g.Server.Client(sid), Log: &Log{}, Ended: make(chan error, 1), g: g}
	l.Loop = session.New(session.Config{
		Conn: g.Closed(l.Client), ServerType: "group", SyncPeriod: SyncPeriod, Clock: leases.NewClockOf(g.Walls[sid]),
		Logger: l.Log.Logger(),
	})
	return l
}

// Start runs the loop until the test ends.
func (l *Loop) Start() {
	l.g.T.Helper()
	l.Stop = l.g.Go(l.Client, func(ctx context.Context) { l.Ended <- l.Run(ctx, handler{l}) })
}

// Go runs an instance of the group, which connects as client, until the test ends or stop is
// called.
func (g *Group) Go(client *zkdev.Client, run func(ctx context.Context)) (stop context.CancelFunc) {
	g.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tasks := task.NewGroup(context.Background())
	tasks.Go("instance", func(context.Context) error {
		run(ctx)
		return nil
	})
	g.T.Cleanup(func() {
		client.Heal()
		cancel()
		if err := tasks.Wait(); err != nil {
			g.T.Error(err)
		}
	})
	synctest.Wait()
	return cancel
}

// Do runs f on the loop, and returns a moment later, when ZooKeeper has answered f's requests.
func (l *Loop) Do(f func()) {
	l.Post(f)
	Pass(time.Millisecond)
}

// Told lists the notices that were told since the last call.
func (l *Loop) Told() []session.Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told = nil
	return told
}

// ToldA finds the notices of a type among those told since the last call.
func ToldA[N session.Notice](l *Loop) (found []N) {
	for _, n := range l.Told() {
		if n, ok := n.(N); ok {
			found = append(found, n)
		}
	}
	return found
}

// handler is a Loop as the session drives it.
type handler struct{ l *Loop }

func (h handler) Event(ev zkconn.Event) {
	if h.l.OnEvent != nil {
		h.l.OnEvent(ev)
	}
}

func (h handler) Handle(n session.Notice) {
	h.l.mu.Lock()
	h.l.told = append(slices.Clip(h.l.told), n)
	h.l.mu.Unlock()
	if h.l.OnNotice != nil {
		h.l.OnNotice(n)
	}
}

func (h handler) Turn() {
	if h.l.OnTurn != nil {
		h.l.OnTurn()
	}
}

func (h handler) Settled() (done bool, err error) {
	if h.l.OnSettled != nil {
		return h.l.OnSettled()
	}
	return false, nil
}

func (h handler) Ended() {
	if h.l.OnEnded != nil {
		h.l.OnEnded()
	}
}

// Next wakes up often: virtual time costs nothing.
func (h handler) Next() time.Duration {
	next := h.l.Now() + 100*time.Millisecond
	if h.l.OnNext != nil {
		return h.l.OnNext(next)
	}
	return next
}

// Log keeps records of a level that people should read.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger logs to it, with durations as JSON has them: in nanoseconds.
func (b *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			return slog.Int64(a.Key, int64(a.Value.Duration()))
		}
		return a
	}}))
}

func (b *Log) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Log) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
