package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

var permissions = map[rune]int32{
	'r': zk.PermRead, 'w': zk.PermWrite, 'c': zk.PermCreate, 'd': zk.PermDelete, 'a': zk.PermAdmin,
}

// ParseACL parses access control entries in the notation of ZooKeeper's shell, "scheme:id:perms"
// separated by commas, with perms of the letters cdrwa. Empty text means all permissions: for auth,
// which is "user:password", or for anyone if that is empty. The scheme "auth" stands for auth, and
// is named here by its digest: the server would grant the same to every other identity of the
// session, such as a TLS certificate.
func ParseACL(text, auth string) ([]zk.ACL, error) {
	if text == "" {
		text = "world:anyone:cdrwa"
		if auth != "" {
			text = ownACL
		}
	}
	var acl []zk.ACL
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		scheme, rest, ok := strings.Cut(entry, ":")
		at := strings.LastIndexByte(rest, ':')
		if !ok || at < 0 || scheme == "" {
			return nil, fmt.Errorf(`entry %q is not "scheme:id:perms"`, entry)
		}
		one := zk.ACL{Scheme: scheme, ID: rest[:at]}
		for _, letter := range rest[at+1:] {
			bit, known := permissions[letter]
			if !known {
				return nil, fmt.Errorf("entry %q: permission %q is not one of c, d, r, w, a", entry, letter)
			}
			one.Perms |= bit
		}
		if one.Perms == 0 {
			return nil, fmt.Errorf("entry %q grants no permission", entry)
		}
		if scheme == "auth" {
			user, password, ok := strings.Cut(auth, ":")
			if !ok {
				return nil, fmt.Errorf("entry %q needs Auth", entry)
			}
			one = zk.DigestACL(one.Perms, user, password)[0]
		}
		acl = append(acl, one)
	}
	return acl, nil
}

// ownACL is all permissions for the connection's own user.
const ownACL = "auth::cdrwa"

// ErrOpenACL means that anybody who reaches ZooKeeper may change a node, although the connection's
// own ACL would not let them. It is an *OpenACLError.
var ErrOpenACL = errors.New("anybody may change the node")

// OpenACLError is an ErrOpenACL.
type OpenACLError struct {
	Path string // of the node, with the chroot
	Who  string // who may change it: "world:anyone"
	Want string // the ACL that it should have, as ZooKeeper's shell takes it; "" if the group has roles
}

func (e *OpenACLError) Error() string {
	if e.Want == "" {
		return fmt.Sprintf("%s may change %s, so that roles protect nothing; look at what is in it, and close it with swctl acl init", e.Who, e.Path)
	}
	return fmt.Sprintf("%s may change %s, so that Auth and ACL protect nothing; look at what is in it, and close it "+
		"in ZooKeeper's shell as the application's user: setAcl -R %s %s", e.Who, e.Path, e.Path, e.Want)
}

// Is reports whether the target is ErrOpenACL.
func (e *OpenACLError) Is(target error) bool { return target == ErrOpenACL }

// changing are the permissions with which a client changes a node, or the nodes below it.
const changing = zk.PermWrite | zk.PermCreate | zk.PermDelete | zk.PermAdmin

// opening finds an entry that lets clients without credentials change a node, beyond the
// permissions in the connection's ACL.
func (c *Conn) opening(path string, acl []zk.ACL) *OpenACLError {
	for _, entry := range acl {
		if entry.Scheme != "world" && entry.Scheme != "ip" {
			continue
		}
		meant := slices.ContainsFunc(c.aclAt(path), func(own zk.ACL) bool {
			everyone := own.Scheme == "world"
			same := own.Scheme == entry.Scheme && own.ID == entry.ID
			return (same || everyone) && entry.Perms&changing&^own.Perms == 0
		})
		if entry.Perms&changing != 0 && !meant {
			open := &OpenACLError{Path: c.chroot + path, Who: entry.Scheme + ":" + entry.ID}
			if c.listAt(path) == nil {
				open.Want = cmp.Or(c.cfg.ACL, ownACL)
			}
			return open
		}
	}
	return nil
}

// CheckClosed returns an *OpenACLError if anybody may change one of the nodes who could not if the
// connection had created it. Nodes that do not exist are left out.
func (c *Conn) CheckClosed(ctx context.Context, paths ...string) error {
	if c.opening(paths[0], zk.WorldACL(zk.PermAll)) == nil {
		return nil // it was asked for
	}
	for _, path := range paths {
		acl, err := c.aclOf(ctx, path)
		if err != nil {
			return err
		}
		if open := c.opening(path, acl); open != nil {
			return open
		}
	}
	return nil
}

// InheritACL makes the connection create nodes with the ACL of path, so that nodes added by an
// operator's tool have the same readers and writers as the rest of the tree. It does nothing if the
// node does not exist. If anybody may change it, although the connection has credentials, it
// returns an *OpenACLError, and the connection creates no nodes from now on: with the node's ACL
// anybody could change them, and with the credentials' ACL the application may not be able to. Call
// it before creating nodes, and not concurrently with other calls.
func (c *Conn) InheritACL(ctx context.Context, path string) error {
	acl, err := c.aclOf(ctx, path)
	if err != nil || acl == nil {
		return err
	}
	if c.open = c.opening(path, acl); c.open != nil {
		return c.open
	}
	c.acl = acl
	return nil
}

// aclOf reads the ACL of a node, nil if it does not exist.
func (c *Conn) aclOf(ctx context.Context, path string) ([]zk.ACL, error) {
	var acl []zk.ACL
	err := c.call(ctx, "getACL", path, func(s *session) (err error) {
		acl, _, err = s.zk.GetACL(c.chroot + path)
		return err
	})
	switch {
	case errors.Is(err, ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err // the library may still write to acl
	}
	return acl, nil
}
