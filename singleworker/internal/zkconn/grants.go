package zkconn

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Perms are permissions on a node.
type Perms int32

// letters are as in ZooKeeper's shell, in its order.
const letters = "cdrwa"

// ParsePerms reads the letters of ZooKeeper's shell, of which it ignores all others.
func ParsePerms(text string) (p Perms) {
	for _, letter := range text {
		p |= Perms(permissions[letter])
	}
	return p
}

// String is the letters of ZooKeeper's shell.
func (p Perms) String() string {
	return strings.Map(func(letter rune) rune {
		if p&Perms(permissions[letter]) == 0 {
			return -1
		}
		return letter
	}, letters)
}

// Grant is an entry of a node's access list.
type Grant struct {
	Who   string // the identity, "scheme:id"
	Perms Perms
}

// DigestIdentity is the identity of a user of the digest scheme, without the password.
func DigestIdentity(user, password string) string {
	return grantsOf(zk.DigestACL(zk.PermAll, user, password))[0].Who
}

// Identity is the connection's own, or "" without credentials.
func (c *Conn) Identity() string {
	user, password, ok := strings.Cut(c.cfg.Auth, ":")
	if !ok {
		return ""
	}
	return DigestIdentity(user, password)
}

func grantsOf(acl []zk.ACL) []Grant {
	list := make([]Grant, len(acl))
	for i, entry := range acl {
		list[i] = Grant{entry.Scheme + ":" + entry.ID, Perms(entry.Perms)}
	}
	return list
}

func zkACL(list []Grant) []zk.ACL {
	acl := make([]zk.ACL, len(list))
	for i, g := range list {
		scheme, id, _ := strings.Cut(g.Who, ":")
		acl[i] = zk.ACL{Scheme: scheme, ID: id, Perms: int32(g.Perms)}
	}
	return acl
}

// ACLs gives the access list of a node that is to be created, by its path: nil is the connection's
// own.
type ACLs func(path string) []Grant

// UseACLs has the nodes that are created from now on have those lists. Nil is the connection's own.
func (c *Conn) UseACLs(acls ACLs) { c.acls.Store(&acls) }

// listAt is the list that the ACLs in use give a node that is to be created, or nil.
func (c *Conn) listAt(path string) []Grant {
	if acls := c.acls.Load(); acls != nil && *acls != nil {
		return (*acls)(path)
	}
	return nil
}

// aclAt is the access list of a node that is to be created.
func (c *Conn) aclAt(path string) []zk.ACL {
	if list := c.listAt(path); list != nil {
		return zkACL(list)
	}
	return c.acl
}

// openAt is why the connection does not create a node, or nil.
func (c *Conn) openAt(path string) error {
	if c.open == nil || c.listAt(path) != nil {
		return nil
	}
	return c.open
}

// FollowACLs has the connection create nodes with the lists that the node at path gives, as parse
// reads it: now, and soon after each change of that node. It reports whether the node exists. A
// later record that cannot be read changes nothing. Calls after the first one that succeeded send
// no request. Calls are not concurrent.
func (c *Conn) FollowACLs(ctx context.Context, path string, parse func(data []byte) (ACLs, error)) (found bool, err error) {
	if c.follows {
		acls := c.acls.Load()
		return *acls != nil, nil
	}
	changed := make(chan struct{}, 1)
	stop := c.Subscribe(func(ev Event) {
		if ev.Kind == Expired || ev.Kind == NodeChanged && ev.Path == path { // the next session has no watch yet
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})
	err = c.Retry(ctx, func() (err error) {
		found, err = c.readACLs(ctx, path, parse)
		return err
	})
	if err != nil {
		stop()
		return found, err
	}
	c.follows = true
	c.start("follow access lists", func() {
		for {
			select {
			case <-changed:
			case <-c.closing.Done():
				return
			}
			_ = c.Retry(c.closing, func() error { // what cannot be read, is not followed
				_, err := c.readACLs(c.closing, path, parse)
				return err
			})
		}
	})
	return found, nil
}

type prepareKey struct{}

// WithPrepare returns a context for a package that opens a connection of its own and knows no
// groups: Prepare calls the function there, which can call FollowACLs.
func WithPrepare(ctx context.Context, prepare func(ctx context.Context, c *Conn) error) context.Context {
	return context.WithValue(ctx, prepareKey{}, prepare)
}

// Prepare calls the function of WithPrepare, if there is one.
func (c *Conn) Prepare(ctx context.Context) error {
	if prepare, ok := ctx.Value(prepareKey{}).(func(ctx context.Context, c *Conn) error); ok {
		return prepare(ctx, c)
	}
	return nil
}

// readACLs reads and watches the node of FollowACLs.
func (c *Conn) readACLs(ctx context.Context, path string, parse func(data []byte) (ACLs, error)) (bool, error) {
	found := false // a call whose context ends may still write to it
	full := c.chroot + path
	err := c.call(ctx, "exists", path, func(s *session) error {
		return s.watching(watch{full, false}, true, func(set bool) (err error) {
			if set {
				found, _, _, err = s.zk.ExistsW(full)
			} else {
				found, _, err = s.zk.Exists(full)
			}
			return err
		})
	})
	if err != nil {
		return false, err
	}
	var acls ACLs
	if found {
		data, _, err := c.Get(ctx, path)
		if errors.Is(err, ErrNoNode) {
			return false, nil // its watch tells more
		} else if err != nil {
			return true, err
		}
		if acls, err = parse(data); err != nil {
			return true, err
		}
	}
	c.UseACLs(acls)
	return found, nil
}

// ACL reads the access list of a node. Errors: ErrNoNode.
func (c *Conn) ACL(ctx context.Context, path string) ([]Grant, error) {
	acl, err := c.aclOf(ctx, path)
	if err == nil && acl == nil {
		err = &OpError{Op: "getACL", Path: path, Err: ErrNoNode}
	}
	return grantsOf(acl), err
}

// SetACL changes the access list of a node.
func (c *Conn) SetACL(ctx context.Context, path string, list []Grant) error {
	return c.call(ctx, OpNameSetACL, path, func(s *session) error {
		_, err := s.zk.SetACL(c.chroot+path, zkACL(list), AnyVersion)
		return err
	})
}
