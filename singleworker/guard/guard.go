// Package guard removes the registration of an instance whose process has died, so that
// other instances take over its jobs at once instead of after its session timeout.
//
// It is for a program that starts the instance as a child process, as swctl guard does.
// The parent gives the child a token in the environment variable [EnvVar]; the instance
// publishes the token with its registration; when the child has exited, the parent calls
// [Guard.Deregister], which removes the registrations that have the token.
//
// Every descendant of the child inherits the variable and may be an instance, too. The
// token alone therefore does not prove that a process has exited: Deregister asks its
// caller about each instance.
//
// # Why a lease that is valid does no harm
//
// Rule (a) of package lease rests on the lease being over before the node goes. Here it may not
// be, but its holder can no longer use it: a process that was waited for runs no handler. So
// everything depends on certainty about three questions:
//
//   - Identity: a node is removed only if its host is guard's, if there is no process with its
//     number, and if that number was the child's, which was waited for; or, on Linux, if no
//     descendant of guard is left at all. Guard is their subreaper, or process 1, so an orphan
//     cannot escape. Otherwise it says loudly that it removes nothing.
//   - Child processes: the rest of the child's process group is killed before the node is removed,
//     as at the end of a container. A process that left the group on purpose survives, as after
//     any crash.
//   - Incarnation: the next one's node has the same path, and versions count from 0. So every
//     client that creates a node also writes its parent, in one transaction. Guard reads the
//     parent's version with the list, and its transaction checks that and the node's version. An
//     instance that may not write the parent, or is older than this rule, does not count, and no
//     guard shares its token either.
//
// Requests in flight find the same state as if the process had died a moment later, or sooner. A
// claim checks the version of alive and the heartbeat: before the takeover it is applied, and the
// new owner finds an interrupted run; after it, it is refused. A heartbeat makes the takeover fail
// once, or finds no node. An adoption names an incarnation that is gone. A join recreates the
// node: then it takes the session timeout. While ZooKeeper is away, guard tries for a while, in a
// session that is open from the start; after that the session timeout applies, as without guard.
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// EnvVar is the environment variable that holds the token. A Manager reads it.
const EnvVar = zkrec.GuardEnv

// Guard is for one start of a child process. Its methods are safe for concurrent use.
type Guard struct {
	conn  *zkconn.Conn
	tree  zkrec.Tree
	token string
}

// New makes a guard with a new token, and starts to connect in the background so that the
// connection is ready when it is needed. The caller must Close it. cfg.SessionTimeout
// defaults to 10 s. Errors: *invalid.FieldError for cfg.
func New(cfg admin.Config) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	token, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	conn, err := zkconn.Open(zkconn.Config{
		Servers: cfg.Servers, SessionTimeout: cfg.SessionTimeout, Auth: cfg.Auth,
		ACL: cfg.ACL, TLS: cfg.TLS, Dial: cfg.Dial, Logger: cfg.Logger,
	}, func(zkconn.Event) {})
	if err != nil {
		return nil, err
	}
	return &Guard{conn, zkrec.NewTree(cfg.ServerType), token.String()}, nil
}

// Env must be in the child's environment: "NAME=token".
func (g *Guard) Env() string { return EnvVar + "=" + g.token }

// Close closes the connection. Idempotent.
func (g *Guard) Close() { g.conn.Close() }

// Instance is a registration that has the guard's token.
type Instance struct {
	ID          string
	Incarnation string // a new one at each start
	Host        string
	PID         int // 0 if the registration does not say
}

// Deregistered is the result of Deregister. Both lists are in no particular order.
type Deregistered struct {
	Removed []Instance
	Kept    []Instance // exited returned false for these
}

// Deregister removes the registrations that have the guard's token and whose process has
// exited. It calls exited for each of them, possibly more than once, and one at a time.
// exited must return true only if the process can no longer run a handler: otherwise two
// instances may run a job at the same time.
//
// It removes exactly the registration that exited was asked about, never one of a later incarnation
// with the same instance ID. Deregistered is valid even if err is not nil: it lists the removals
// before the error. Errors: admin.ErrDenied, admin.ErrUnavailable.
func (g *Guard) Deregister(ctx context.Context, exited func(Instance) bool) (Deregistered, error) {
	r := &removal{guard: g, exited: exited, sent: map[string]Instance{}}
	err := g.conn.Retry(ctx, func() error {
		for {
			if err := r.try(ctx); !changed(err) {
				return err
			}
		}
	})
	if err != nil {
		err = fmt.Errorf("remove the registration: %w", err)
		if len(r.sent) > 0 && errors.Is(err, admin.ErrUnavailable) {
			err = fmt.Errorf("%w; it may have been removed nevertheless", err)
		}
	}
	return r.Deregistered, err
}

// changed reports whether a registration changed between reading and removing it.
func changed(err error) bool {
	return errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode)
}

// removal is one call of Deregister.
type removal struct {
	Deregistered

	guard  *Guard
	exited func(Instance) bool
	sent   map[string]Instance // removals that were sent and not answered
}

// try looks for the token and removes its registrations. Each new registration changes the version
// of the parent node, which is read before the registrations and checked in the transaction that
// removes one and so removes only a node that was read.
func (r *removal) try(ctx context.Context) error {
	conn, tree := r.guard.conn, r.guard.tree
	if err := conn.Sync(ctx, tree.Instances()); err != nil {
		return err
	}
	names, parent, err := conn.Children(ctx, tree.Instances())
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil // the group does not exist
	}
	if err != nil {
		return err
	}
	found, denied, err := r.guard.find(ctx, names)
	if err != nil {
		return err
	}
	if denied != nil && len(found)+len(r.sent) == 0 {
		return denied // one of those may be the child's
	}
	for id, instance := range r.sent {
		if _, there := found[id]; !there { // an earlier try was applied after all
			r.Removed = append(r.Removed, instance)
			delete(r.sent, id)
		}
	}
	r.Kept = nil
	for id, reg := range found {
		if !r.exited(reg.Instance) {
			r.Kept = append(r.Kept, reg.Instance)
			continue
		}
		r.sent[id] = reg.Instance
		_, err := conn.Multi(ctx,
			zkconn.CheckOp(tree.Instances(), parent.Version), zkconn.DeleteOp(tree.Instance(id), reg.version))
		if zkconn.IsUnknown(err) {
			return err
		}
		delete(r.sent, id)
		if err != nil {
			return err
		}
		r.Removed = append(r.Removed, reg.Instance)
	}
	return nil
}

// registration is an instance with the version of its node.
type registration struct {
	Instance

	version int32
}

// readers is how many registrations are read at a time: a takeover waits for this.
const readers = 32

// find returns the registrations that have the token, by instance ID. denied says that there are
// some that may not be read.
func (g *Guard) find(ctx context.Context, ids []string) (found map[string]registration, denied, err error) {
	var mu sync.Mutex
	found = make(map[string]registration)
	err = task.Each(ctx, readers, ids, func(ctx context.Context, _ int, id string) error {
		data, stat, err := g.conn.Get(ctx, g.tree.Instance(id))
		if errors.Is(err, zkconn.ErrNoNode) {
			return nil // gone in the meantime
		}
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, zkconn.ErrDenied) {
			denied = err
			return nil
		}
		if err != nil {
			return err
		}
		record, err := zkrec.ParseInstance(data)
		if err != nil || record.Guard != g.token {
			return nil // what cannot be read is not the child's
		}
		found[id] = registration{Instance{id, record.Incarnation, record.Host, record.PID}, stat.Version}
		return nil
	})
	return found, denied, err
}
