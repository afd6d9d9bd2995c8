package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Guard is for a program that starts an instance as a child process, as swctl
// guard does: when the child has died it removes the registration, so that the
// others take over at once, and not when the session has timed out.
//
// The child is told a token, in the variable singleworker.GuardEnv, which it
// publishes with its registration. Whoever inherits the variable has the token,
// too; so who asks for a removal says of each process whether it has ended.
type Guard struct {
	client *Client
	token  string
}

// NewGuard makes a guard with a token of its own for one start of a child, and
// begins to connect: the connection is there when it is needed, if a server is.
// It fails with an *InvalidError only. Whoever makes a guard must Close.
func NewGuard(cfg Config) (*Guard, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	client, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	return &Guard{client, token.String()}, nil
}

// Env is what the environment of the child must hold: "NAME=token".
func (g *Guard) Env() string { return zkrec.GuardEnv + "=" + g.token }

// Close ends the connection. Idempotent.
func (g *Guard) Close() { g.client.Close() }

// Burial is what Bury did.
type Burial struct {
	Removed []Instance // in no order
	Spared  []Spared
}

// Spared is an instance that has the guard's token and was left alone.
type Spared struct {
	Instance

	Why error // why its process may live
}

// Bury removes the registrations of the guard's child. It asks isDead about
// each instance that has the token, perhaps more than once: nil means that the
// process has certainly ended, that it can run no handler any more; an error,
// why it may not have. Two owners of a job at once are what a wrong nil leads to.
//
// What it removes is what isDead was asked about, and never the registration of
// a later incarnation, also when that has the same instance id. Whatever it
// returns, Burial says what was done until then. Errors: ErrDenied,
// ErrUnavailable.
func (g *Guard) Bury(ctx context.Context, isDead func(Instance) error) (Burial, error) {
	b := &burial{client: g.client, token: g.token, isDead: isDead, sent: map[string]Instance{}}
	err := g.client.retry(ctx, func() error {
		for {
			if err := b.once(ctx); !moved(err) {
				return err
			}
		}
	})
	if err != nil {
		err = uncertain(fmt.Errorf("remove the registration: %w", err), len(b.sent) > 0)
	}
	return b.Burial, err
}

// burial is one call of Bury, over its tries.
type burial struct {
	Burial

	client *Client
	token  string
	isDead func(Instance) error
	sent   map[string]Instance // whose removal was sent, and not answered
}

// once looks for the token and removes what it finds. The version of the
// parent, read with the list and so before the records, is checked in the
// transaction of the removal: every new incarnation changes it, so the node
// that is deleted is the one that was read.
func (b *burial) once(ctx context.Context) error {
	conn, tree := b.client.conn, b.client.tree
	if err := conn.Sync(ctx, tree.Instances()); err != nil {
		return err
	}
	names, parent, err := conn.Children(ctx, tree.Instances())
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil // of a group that never was
	}
	if err != nil {
		return err
	}
	marked, err := b.marked(ctx, names)
	if err != nil {
		return err
	}
	for sid, instance := range b.sent {
		if _, there := marked[sid]; !there { // an earlier try was applied after all
			b.Removed = append(b.Removed, instance)
			delete(b.sent, sid)
		}
	}
	b.Spared = nil
	for sid, m := range marked {
		if why := b.isDead(m.instance); why != nil {
			b.Spared = append(b.Spared, Spared{m.instance, why})
			continue
		}
		b.sent[sid] = m.instance
		_, err := conn.Multi(ctx,
			zkconn.CheckOp(tree.Instances(), parent.Version), zkconn.DeleteOp(tree.Instance(sid), m.version))
		if zkconn.IsUnknown(err) {
			return err
		}
		delete(b.sent, sid)
		if err != nil {
			return err
		}
		b.Removed = append(b.Removed, m.instance)
	}
	return nil
}

// marked is an instance that has the token.
type marked struct {
	instance Instance
	version  int32 // of its record
}

// marked reads the records of instances, many at a time: there is no time to
// lose, and only one of them is looked for.
func (b *burial) marked(ctx context.Context, names []string) (map[string]marked, error) {
	var mu sync.Mutex
	found := make(map[string]marked)
	room := make(chan struct{}, readers)
	tasks := task.NewGroup(ctx)
	for _, sid := range names {
		room <- struct{}{}
		tasks.Go("read instance", func(ctx context.Context) error {
			defer func() { <-room }()
			data, stat, err := b.client.conn.Get(ctx, b.client.tree.Instance(sid))
			if errors.Is(err, zkconn.ErrNoNode) {
				return nil // gone meanwhile
			}
			if err != nil {
				return err
			}
			record, err := zkrec.ParseInstance(data)
			if err != nil || record.Guard != b.token {
				return nil // what cannot be read is not the child's
			}
			mu.Lock()
			defer mu.Unlock()
			found[sid] = marked{instanceOf(sid, record, zkrec.Order{}, false), stat.Version}
			return nil
		})
	}
	return found, tasks.Wait()
}
