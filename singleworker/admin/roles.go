package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/access"
	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// The roles, in Roles.
const (
	RoleViewers   = access.Viewers   // read all: swctl list, pages, the exporter
	RoleOperators = access.Operators // ask for runs and stops, pause, drain, disable
	RoleAdmins    = access.Admins    // change jobs and roles
	RoleInstances = access.Instances // run jobs, and change them from code
	RoleGuards    = access.Guards    // end the registration of an instance that has exited
	RoleSenders   = access.Senders   // send notifications
)

// Roles has, by role, the identities by which ZooKeeper knows those who have it: "scheme:id", as
// "digest:alice:HASH" (see DigestIdentity), "ip:10.1.0.0/16", "x509:CN=alice", or "world:anyone"
// for viewers. One identity may have several roles.
type Roles map[string][]string

// DigestIdentity is the identity of a user who connects with Config.Auth "user:password". It has
// the password as a hash.
func DigestIdentity(user, password string) string { return zkconn.DigestIdentity(user, password) }

// IsDigestHash reports whether a text can stand for a password in the identity of a user.
func IsDigestHash(text string) bool {
	hash, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(hash) == 20 // of SHA-1
}

// RoleTable has a row for each kind of node: its name, and the permissions of each role by
// ZooKeeper's letters. A node is created and deleted with permission c and d of its parent.
func RoleTable() []RoleRow {
	rows := make([]RoleRow, len(access.Table))
	for i, of := range access.Table {
		rows[i] = RoleRow{string(of.Kind), make(map[string]string)}
		for k, role := range access.Roles {
			rows[i].Permissions[role] = of.Perms[k]
		}
	}
	return rows
}

// RoleRow is a row of RoleTable.
type RoleRow struct {
	Kind        string            `json:"kind"`
	Permissions map[string]string `json:"permissions"` // by role
}

// NeededRole names the least of RoleViewers, RoleOperators and RoleAdmins that allows the call that
// failed with ErrDenied, in a group that has roles. It is empty if the error does not tell.
func NeededRole(serverType string, err error) string {
	refused := (*zkconn.OpError)(nil)
	if !errors.As(err, &refused) {
		return ""
	}
	return access.Needed(zkrec.NewTree(serverType), refused)
}

// Of lists the roles of an identity, in the order of the table.
func (r Roles) Of(identity string) []string {
	return slices.DeleteFunc(slices.Clone(access.Roles), func(role string) bool { return !slices.Contains(r[role], identity) })
}

// check returns an *invalid.FieldError for roles that cannot be enforced.
func (r Roles) check() error {
	for _, role := range slices.Sorted(maps.Keys(r)) {
		if !slices.Contains(access.Roles, role) {
			return &invalid.FieldError{Field: "Roles", Value: role, Err: fmt.Errorf("is no role: want one of %s", strings.Join(access.Roles, ", "))}
		}
		for _, who := range r[role] {
			if err := checkIdentity(who, role); err != nil {
				return &invalid.FieldError{Field: "Roles", Value: role, Err: fmt.Errorf("identity %s: %w", Hidden(who), err)}
			}
		}
	}
	for _, role := range []string{RoleAdmins, RoleInstances} {
		if len(r[role]) == 0 {
			return &invalid.FieldError{Field: "Roles", Value: role, Err: errors.New("needs an identity")}
		}
	}
	return nil
}

func checkIdentity(who, role string) error {
	scheme, id, _ := strings.Cut(who, ":")
	switch scheme {
	case "digest":
		if user, hash, _ := strings.Cut(id, ":"); user == "" || !IsDigestHash(hash) {
			return errors.New("is not digest:USER:HASH")
		}
	case "ip":
		_, prefixErr := netip.ParsePrefix(id)
		if _, err := netip.ParseAddr(id); err != nil && prefixErr != nil {
			return errors.New("is not an address, or a range of addresses")
		}
	case "world":
		if id != "anyone" || role != RoleViewers {
			return fmt.Errorf("may only be world:anyone, and only among the %s", RoleViewers)
		}
	case "x509", "sasl":
		if id == "" {
			return errors.New("has no name")
		}
	default:
		return fmt.Errorf("scheme %q is not digest, ip, x509, sasl or world", scheme)
	}
	return nil
}

// Hidden is an identity with the beginning of its hash only.
func Hidden(identity string) string {
	const shown = 6
	at := strings.LastIndexByte(identity, ':') + 1
	if hash := identity[at:]; IsDigestHash(hash) {
		return identity[:at] + hash[:shown] + "..."
	}
	return identity
}

// Roles reads who has which role. Errors: ErrNoRoles, ErrUnreadable, ErrDenied, ErrUnavailable.
func (c *Client) Roles(ctx context.Context) (Roles, error) {
	return retried(ctx, c.conn, "read roles", func() (Roles, error) {
		record, _, err := c.roles(ctx)
		return record.Roles, err
	})
}

func (rd reader) roles(ctx context.Context) (zkrec.Access, zkconn.Stat, error) {
	data, stat, err := rd.conn.Get(ctx, rd.tree.Access())
	if errors.Is(err, zkconn.ErrNoNode) {
		return zkrec.Access{}, stat, ErrNoRoles
	} else if err != nil {
		return zkrec.Access{}, stat, err
	}
	record, err := zkrec.ParseAccess(data)
	if err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrUnreadable, rd.tree.Access(), err)
	}
	return record, stat, err
}

// RolesSet is the outcome of SetRoles.
type RolesSet struct {
	Nodes   int `json:"nodes"`   // of the group
	Changed int `json:"changed"` // of these, whose access list was another one
}

// SetRoles has ZooKeeper enforce roles: it writes who has which, and gives each node of the group
// the access list that follows. Without guards, or senders, instances are that. Instances and
// programs that run follow at once. The group need not exist yet.
//
// The client needs the credentials to which the nodes belong until now: the application's, or later
// an admin's. They must be an instance's or an admin's then, too. If the call is ended at any
// point, the same call again completes it. Errors: *invalid.FieldError, ErrCutOff if an instance
// that runs, or the client, would lose its role, ErrConflict if nodes keep being created with other
// lists, ErrUnreadable, ErrDenied, ErrUnavailable. RolesSet says how far it came.
func (c *Client) SetRoles(ctx context.Context, roles Roles) (done RolesSet, err error) {
	if err := roles.check(); err != nil {
		return done, err
	}
	given := maps.Clone(roles)
	for _, role := range []string{RoleGuards, RoleSenders} {
		if len(given[role]) == 0 {
			given[role] = given[RoleInstances]
		}
	}
	if own := c.conn.Identity(); !slices.Contains(slices.Concat(given[RoleAdmins], given[RoleInstances]), own) {
		return done, fmt.Errorf("set roles: %w: this client, whose identity (%s) is neither among the %s nor the %s", ErrCutOff,
			cmp.Or(Hidden(own), "none"), RoleAdmins, RoleInstances)
	}
	grant := granting{c.reader, c.writer}
	if err := c.conn.Retry(ctx, func() error { return grant.keepsInstances(ctx, given[RoleInstances]) }); err != nil {
		return done, fmt.Errorf("set roles: %w", err)
	}
	lists := access.Of(c.tree, zkrec.Access{Roles: given})
	c.conn.UseACLs(lists.At)
	if err := c.conn.Retry(ctx, func() error { return grant.prepareRoles(ctx, given) }); err != nil {
		return done, fmt.Errorf("set roles: %w", err)
	}
	if err := grant.applyLists(ctx, lists, &done); err != nil {
		return done, fmt.Errorf("set roles: %w", err)
	}
	return done, nil
}

// granting gives each node of the group the access list that follows from the roles.
type granting struct {
	reader
	writer
}

// keepsInstances returns ErrCutOff if the node of an instance was created by somebody who will not
// have its role.
func (g granting) keepsInstances(ctx context.Context, identities []string) error {
	sids, err := g.children(ctx, g.tree.Instances())
	if err != nil {
		return err
	}
	var out []string
	for _, sid := range sids {
		list, err := g.conn.ACL(ctx, g.tree.Instance(sid))
		if errors.Is(err, zkconn.ErrNoNode) {
			continue
		} else if err != nil {
			return err
		}
		known := func(g zkconn.Grant) bool {
			return slices.ContainsFunc(identities, func(who string) bool { return isSame(g.Who, who) })
		}
		if !slices.ContainsFunc(list, known) {
			out = append(out, sid)
		}
	}
	if len(out) > 0 {
		slices.Sort(out)
		return fmt.Errorf("%w: %s, which connects with no identity of the %s: give it such a Config.Auth first", ErrCutOff, strings.Join(out, ", "), RoleInstances)
	}
	return nil
}

// prepareRoles makes the nodes that operators and senders may not make, and writes the record.
func (g granting) prepareRoles(ctx context.Context, roles Roles) error {
	for _, path := range []string{g.tree.Instances(), g.tree.Lives(), g.tree.Handlers(), g.tree.Orders(), g.tree.Exclusions(), g.tree.Deeds(), g.tree.Notices()} {
		if err := g.conn.EnsureRoot(ctx, path); err != nil {
			return err
		}
	}
	if err := signals.Prepare(ctx, g.conn, g.tree); err != nil {
		return err
	}
	record, stat, err := g.roles(ctx)
	was := record.Encode()
	record.Roles = roles
	op := zkconn.SetOp(g.tree.Access(), record.Encode(), stat.Version)
	switch {
	case errors.Is(err, ErrNoRoles):
		op = zkconn.CreateOp(g.tree.Access(), record.Encode())
	case err != nil || bytes.Equal(was, record.Encode()):
		return err
	}
	_, err = g.multi(ctx, g.deed(ctx, zkrec.DeedRoles, Who{}), op)
	if moved(err) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}

const (
	listedAtOnce = 64 // nodes whose access list is read, or changed
	maxPasses    = 10
)

// applyLists gives each node its list, until all have it: instances that have not heard of the
// roles yet create others meanwhile.
func (g granting) applyLists(ctx context.Context, lists access.Lists, done *RolesSet) error {
	pause := task.Backoff{Min: 100 * time.Millisecond, Max: 2 * time.Second}
	for pass := 1; ; pass++ {
		other, nodes, err := g.otherLists(ctx, lists, true)
		done.Nodes, done.Changed = nodes, done.Changed+len(other)
		switch {
		case err != nil:
			return err
		case len(other) == 0:
			return nil
		case pass == maxPasses:
			return fmt.Errorf("%w: nodes are still created with other access lists, such as %s: by an instance or a program whose version is older", ErrConflict, other[0].Path)
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// OtherList is a node whose access list is not the one that follows from the roles. Each entry is
// an identity, Hidden, and its permissions.
type OtherList struct {
	Path string   `json:"path"`
	Has  []string `json:"has"`
	Want []string `json:"want"`
}

// otherLists finds the nodes of the group whose list differs, sorted by path, and mends them if it
// is to.
func (g granting) otherLists(ctx context.Context, lists access.Lists, mend bool) (other []OtherList, nodes int, err error) {
	paths, err := retried(ctx, g.conn, "list nodes", func() ([]string, error) { return deletion.Below(ctx, g.conn, g.tree.Root()) })
	if err != nil {
		return nil, 0, err
	}
	var mu sync.Mutex
	err = task.Each(ctx, listedAtOnce, paths, func(ctx context.Context, _ int, path string) error {
		want := lists.At(path)
		return g.conn.Retry(ctx, func() error {
			has, err := g.conn.ACL(ctx, path)
			same := sameList(has, want)
			if err == nil && !same && mend {
				err = g.conn.SetACL(ctx, path, want)
			}
			if errors.Is(err, zkconn.ErrNoNode) {
				return nil // gone in the meantime
			} else if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			nodes++
			g.heard(1)
			if !same {
				other = append(other, OtherList{path, textOf(has, want), textOf(want, nil)})
			}
			return nil
		})
	})
	slices.SortFunc(other, func(a, b OtherList) int { return strings.Compare(a.Path, b.Path) })
	return other, nodes, err
}

// isSame compares an identity in a node's list with another one. ZooKeeper tells the hashes only to
// those who may change the list.
func isSame(has, want string) bool {
	scheme, id, _ := strings.Cut(want, ":")
	user, _, _ := strings.Cut(id, ":")
	return has == want || scheme == "digest" && has == "digest:"+user+":x"
}

func sameList(has, want []zkconn.Grant) bool {
	same := func(h, w zkconn.Grant) bool { return h.Perms == w.Perms && isSame(h.Who, w.Who) }
	for _, h := range has {
		if !slices.ContainsFunc(want, func(w zkconn.Grant) bool { return same(h, w) }) {
			return false
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(has, func(h zkconn.Grant) bool { return same(h, w) }) {
			return false
		}
	}
	return true
}

// textOf is a list for people, with the identities of another one where they may be the same.
func textOf(list, known []zkconn.Grant) []string {
	texts := make([]string, len(list))
	for i, g := range list {
		for _, k := range known {
			if isSame(g.Who, k.Who) {
				g.Who = k.Who
			}
		}
		texts[i] = Hidden(g.Who) + " " + g.Perms.String()
	}
	return texts
}

// RolesCheck is the outcome of CheckRoles.
type RolesCheck struct {
	Own   []string    `json:"own"`   // the client's roles
	Nodes int         `json:"nodes"` // of the group
	Other []OtherList `json:"other"` // sorted
}

// CheckRoles finds the nodes of the group whose access lists do not follow from its roles. Any role
// but RoleGuards will do. ZooKeeper tells only admins whether passwords' hashes are the right ones.
// Errors: ErrNoRoles, ErrUnreadable, ErrDenied, ErrUnavailable.
func (c *Client) CheckRoles(ctx context.Context) (found RolesCheck, err error) {
	roles, err := c.Roles(ctx)
	if err != nil {
		return found, err
	}
	found.Own = append([]string{}, roles.Of(c.conn.Identity())...)
	lists := access.Of(c.tree, zkrec.Access{Roles: roles})
	found.Other, found.Nodes, err = granting{c.reader, c.writer}.otherLists(ctx, lists, false)
	if err != nil {
		return found, fmt.Errorf("check roles: %w", err)
	}
	return found, nil
}
