package member

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Operators exclude one job from an instance or a host, and all jobs from a host. Everybody reads
// these exclusions with the group, so nobody offers a job to an instance that has not heard yet
// that it may not run it. The name of a node below _excluded tells whom it excludes from which job.
// So its list alone is watched, and each node is read once.

// exclusions are those that were read.
type exclusions struct {
	byName  map[string]zkrec.Exclusion
	byJob   zkrec.Exclusions
	watched bool // a watch tells when the list changes
}

// fetchExclusions reads the exclusions that are not known, and watches their list. unreadable says
// by path which of them cannot be read.
func fetchExclusions(
	ctx context.Context, l *session.Loop, known map[string]zkrec.Exclusion,
) (read exclusions, unreadable map[string]error, err error) {
	conn, tree := l.Conn, l.Tree
	names, _, err := conn.ChildrenW(ctx, tree.Exclusions())
	if errors.Is(err, zkconn.ErrNoNode) { // created so that it can be watched
		if err = conn.EnsureRoot(ctx, tree.Exclusions()); err == nil {
			names, _, err = conn.ChildrenW(ctx, tree.Exclusions())
		}
	}
	read = exclusions{byName: make(map[string]zkrec.Exclusion, len(names)), byJob: make(zkrec.Exclusions), watched: err == nil}
	if errors.Is(err, zkconn.ErrDenied) {
		return read, nil, nil // as for orders: an instance that may not read them has none
	}
	if err != nil {
		return read, nil, err
	}
	var unread []string
	var reads []zkconn.Read
	for _, name := range names {
		if x, found := known[name]; found {
			read.byName[name] = x
			continue
		}
		unread = append(unread, name)
		reads = append(reads, zkconn.Read{Path: tree.Exclusion(name)})
	}
	unreadable = make(map[string]error)
	if len(reads) > 0 {
		for i, r := range conn.ReadMany(ctx, reads) {
			switch {
			case errors.Is(r.Err, zkconn.ErrNoNode):
				continue // gone in between
			case zkconn.IsUnknown(r.Err):
				return read, nil, r.Err
			case r.Err == nil:
				var x zkrec.Exclusion
				if x, r.Err = zkrec.ParseExclusion(unread[i], r.Data); r.Err == nil {
					read.byName[unread[i]] = x
				}
			}
			if r.Err != nil { // it binds nobody, and is read again with the list
				unreadable[reads[i].Path] = r.Err
			}
		}
	}
	for _, x := range read.byName {
		read.byJob[x.Job] = append(read.byJob[x.Job], x)
	}
	for _, of := range read.byJob {
		slices.SortFunc(of, func(a, b zkrec.Exclusion) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return read, unreadable, nil
}

// Place is this instance's host, labels and ID, and the exclusions that apply there.
type Place struct {
	loop     *session.Loop
	id       string
	instance zkrec.Instance
	excluded zkrec.Exclusions // of everybody, as last read
}

// Prime reads the exclusions before this instance appears, beside the loop: it may take slots that
// are offered to it before it has read the group.
func (p *Place) Prime(ctx context.Context) error {
	read, _, err := fetchExclusions(ctx, p.loop, nil)
	if err == nil {
		p.loop.Post(func() { p.excluded = read.byJob })
	}
	return err
}

// MayRun says why this instance must not run a job whose handler it has, or nil.
func (p *Place) MayRun(j *job.Job) error { return zkrec.MayRun(j, p.id, &p.instance, p.excluded) }

// closed returns the order that disables this host, or nil.
func (p *Place) closed() *zkrec.Exclusion { return p.excluded.Of("", "", p.instance.Host) }

// places are the hosts and labels of the live members, and the exclusions that apply there.
type places struct {
	at       map[string]zkrec.Instance // by sid: what zkrec.MayRun needs
	excluded zkrec.Exclusions
	lists    map[string][]string // the members that may run some jobs: one list for all that have the same
}

func placeOf(i zkrec.Instance) zkrec.Instance {
	return zkrec.Instance{Host: i.Host, Labels: i.Labels, Specs: i.Specs}
}

func (p *places) same(other *places) bool {
	return reflect.DeepEqual(p.at, other.at) && reflect.DeepEqual(p.excluded, other.excluded)
}

// reads reports whether a live member reads specs of a schema.
func (a *Able) reads(sid string, schema int) bool {
	if a == nil {
		return false
	}
	at := a.places.at[sid]
	return at.Reads(schema)
}

// Among lists the members that may run a job, out of some live ones that have its handler. The
// caller must not change the result, which jobs share.
func (a *Able) Among(sids []string, j *job.Job) []string {
	if a == nil || zkrec.SchemaOf(j) == zkrec.Schema && len(a.places.excluded[j.Name]) == 0 {
		return sids
	}
	var may []string
	for _, sid := range sids {
		at := a.places.at[sid]
		if zkrec.MayRun(j, sid, &at, a.places.excluded) == nil {
			may = append(may, sid)
		}
	}
	key := strings.Join(may, "\x00")
	if list, known := a.places.lists[key]; known {
		return list
	}
	a.places.lists[key] = may
	return may
}
