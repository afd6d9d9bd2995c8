package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/access"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/latch"
)

// Notifier tells about the jobs of a group while it is the sender. It is safe for concurrent use.
type Notifier struct {
	cfg     Config
	tree    zkrec.Tree
	log     *slog.Logger
	targets []string // sorted

	mu    sync.Mutex
	stats Stats
}

// Stats count a Notifier's work since it was created. Another instance may have been the sender
// before.
type Stats struct {
	Sending bool // it is the sender now
	Targets map[string]TargetStats
	// Dropped are the episodes that were not told because too many waited for a target that does not
	// answer.
	Dropped int
	// PingsFailed are those that were not sent in three attempts.
	PingsFailed int
	// Gaps are the readings that found that a job had run more often than its history tells.
	Gaps int
}

// TargetStats count one target's.
type TargetStats struct {
	Sent   int   // messages
	Failed int   // attempts
	Err    error // of the latest attempt; nil if that succeeded, or nothing was sent
}

// New checks cfg and returns a Notifier. The error is an *invalid.FieldError.
func New(cfg Config) (*Notifier, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.ID = cmp.Or(cfg.ID, defaultID())
	n := &Notifier{
		cfg: cfg, tree: zkrec.NewTree(cfg.Group.ServerType), log: cfg.Logger,
		targets: slices.Sorted(maps.Keys(cfg.Targets)), stats: Stats{Targets: make(map[string]TargetStats)},
	}
	if n.log == nil {
		n.log = slog.Default()
	}
	return n, nil
}

// Stats returns counts of the Notifier's work.
func (n *Notifier) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stats
	s.Targets = maps.Clone(s.Targets)
	return s
}

func (n *Notifier) count(change func(*Stats)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.stats)
}

// Test sends a test message to a target, without ZooKeeper.
func (n *Notifier) Test(ctx context.Context, target string) error {
	sender := n.cfg.Targets[target]
	if sender == nil {
		return refuse("Targets", target, fmt.Errorf("is no target; there are %q", n.targets))
	}
	m := n.message([]Item{{
		ID: itemID(uuid.NewString()), Kind: Failed, Job: "test", At: time.Now().UTC(), Count: 1, Error: "this is a test",
	}})
	m.Test = true
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	return sender.Send(ctx, m)
}

func (n *Notifier) message(items []Item) Message {
	return Message{ServerType: n.cfg.Group.ServerType, Sender: n.cfg.ID, At: time.Now().UTC(), Items: items}
}

// Run takes part in the election of the sender, and sends while it is that one, until ctx is done.
// It outlives lost connections and sessions, and records that cannot be read, of which it begins
// new ones. When it returns, deliveries in progress have ended. A Notifier runs once. Errors:
// latch.ErrAccessDenied; latch.ErrNotReleased if ZooKeeper was unreachable at the end.
func (n *Notifier) Run(ctx context.Context) error {
	g := n.cfg.Group
	l, err := latch.New(latch.Config{
		Servers: g.Servers, Path: n.tree.Notices() + "/leader", ID: n.cfg.ID, Auth: g.Auth, ACL: g.ACL, TLS: g.TLS, Dial: g.Dial,
		SessionTimeout: g.SessionTimeout, Logger: n.log,
	})
	if err != nil {
		return err
	}
	again := task.Backoff{Min: time.Second, Max: time.Minute}
	ctx = zkconn.WithPrepare(ctx, func(ctx context.Context, conn *zkconn.Conn) error {
		_, err := access.Follow(ctx, conn, n.tree)
		return err
	})
	return l.Lead(ctx, func(ctx context.Context) error {
		term, _ := latch.TermFrom(ctx)
		began := time.Now()
		n.count(func(s *Stats) { s.Sending = true })
		defer n.count(func(s *Stats) { s.Sending = false })
		err := n.term(ctx, term.Token)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, zkconn.ErrDenied) || errors.Is(err, zkconn.ErrOpenACL):
			return fmt.Errorf("notify: %w", err)
		}
		n.log.WarnContext(ctx, "notifications interrupted", "err", err)
		if time.Since(began) > again.Max {
			again.Reset()
		}
		_ = again.Wait(ctx)
		return nil
	})
}

// term is the work of the sender.
func (n *Notifier) term(ctx context.Context, token int64) error {
	g := n.cfg.Group
	conn, err := zkconn.Open(zkconn.Config{
		Servers: g.Servers, SessionTimeout: cmp.Or(g.SessionTimeout, latch.DefaultSessionTimeout), Auth: g.Auth, ACL: g.ACL,
		TLS: g.TLS, Dial: g.Dial, Logger: n.log,
	}, func(zkconn.Event) {})
	if err != nil {
		return err
	}
	defer conn.Close()
	roles, err := access.Follow(ctx, conn, n.tree)
	if err != nil {
		return err
	}
	if g.ACL == "" && !roles {
		if err := conn.Retry(ctx, func() error { return conn.InheritACL(ctx, n.tree.Root()) }); err != nil {
			return err
		}
	}
	d := &desk{
		n: n, store: &store{conn: conn, tree: n.tree}, book: newBook(g.ServerType, n.targets, n.cfg.Rules),
		outboxes: make(map[string]*outbox), inbox: make(chan func()), pinger: newPinger(n),
		warned: make(map[string]bool),
	}
	unreadable, err := d.store.load(ctx, d.book, n.cfg.ID, token)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(unreadable)) {
		n.log.ErrorContext(ctx, "a record of what was told cannot be read: a new one begins", "path", path, "err", unreadable[path])
	}
	n.log.InfoContext(ctx, "sending notifications", "targets", n.targets)
	return d.run(ctx)
}

// defaultID differs between two starts even where process ids repeat, as in containers.
func defaultID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.100s-%d-%s", host, os.Getpid(), uuid.NewString()[:4])
}
