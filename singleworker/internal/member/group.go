package member

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Group is one reading of the instances and of the orders.
type Group struct {
	Peers      map[string]lease.Peer
	unreadable map[string]error // by path: of which nothing is known but that they live, or that are not instances
	able       *Able
	reading    reading
}

// Roster reads the group: who is in it, and operators' orders. Each reading starts from the one
// before, and reads only the nodes that may have changed since: in rest, the list of instances
// alone.
//
// The protocol takes over from an instance that is not in the list, or is there with another
// incarnation, and needs that as it was after the slot was read: a record that was read earlier may
// belong to a node that was deleted, and created again by another start of the instance, between
// two readings of the list. The list's pzxid excludes that. It is the last transaction that created
// or deleted any node of the list. If it is the same in two readings, each node is the same at
// both, and at any moment in between, when its record was read. An incarnation never changes in a
// node. So this does not rest on watches. They tell of changes of the other records and of orders;
// of a record that changed they tell before the list is answered that was read after the change,
// unless the connection has changed in between. Then everything is read again.
type Roster struct {
	loop *session.Loop

	readings int     // that were begun
	latest   reading // zero while another one is being made
	changes  changes
	followed int // the changes of orders, as changes.told counts them, that the readings taken in know of
	waiting  []func()
}

// reading is the result of one reading of the group.
type reading struct {
	number  int
	attempt int // the connection that it was made in
	pzxid   int64
	records map[string]instanceRead // by sid
	orders  map[string]order
	watched bool // watches tell of changes of orders
	// excluded are operators' orders for one job, or for a host.
	excluded exclusions
	// handlers are the lists that records name, by hash, as far as they could be read.
	handlers map[string][]string
	until    time.Duration // Mono: when to read everything again although no watch tells
	told     int           // changes.told when orders were read
}

// changes is the news of watches since a reading last asked.
type changes struct {
	records  map[string]bool // by sid
	orders   bool
	excluded bool
	told     int // how often watches have told, ever, that orders or exclusions have changed
}

// Changed notes that the node of an instance, or one of the orders, has changed.
func (r *Roster) Changed(path string) {
	if sid, ok := r.loop.Tree.InstanceOf(path); ok {
		if r.changes.records == nil {
			r.changes.records = make(map[string]bool)
		}
		r.changes.records[sid] = true
		return
	}
	r.changes.told++
	if path == r.loop.Tree.Exclusions() {
		r.changes.excluded = true
		return
	}
	r.changes.orders = true
}

// Ordered calls f once all orders have been taken in that watches have told of: at once, or in the
// turn of the loop in which they are. ZooKeeper tells of an order before it answers a request that
// came after it. So f, called with the answer, knows of it.
func (r *Roster) Ordered(f func()) {
	if r.followed < r.changes.told {
		r.waiting = append(r.waiting, f)
		return
	}
	f()
}

// follow notes that a reading was taken in.
func (r *Roster) follow(read reading) {
	if r.followed = max(r.followed, read.told); r.followed < r.changes.told {
		return
	}
	for _, f := range r.waiting {
		r.loop.Defer(f)
	}
	r.waiting = nil
}

// errNoSession is why a node below Instances does not count as an instance: someone created it
// manually.
var errNoSession = errors.New("no session holds it, so it is not an instance's; delete it")

// Fetch begins a reading of the live instances and operators' orders, which it watches. The reading
// itself is made beside the loop, by calling fetch. Follow takes it in.
func (r *Roster) Fetch() (fetch func(ctx context.Context) (Group, error)) {
	was := r.latest
	known := was.handlers // for good: they are named by their content
	r.latest = reading{}  // until this reading is taken in: it may fail
	r.readings++
	next := reading{number: r.readings, attempt: r.loop.Attempt(), until: was.until}
	if was.attempt != next.attempt || r.loop.Now() >= was.until {
		was = reading{}
		next.until = r.loop.NextLook()
	}
	return func(ctx context.Context) (Group, error) { return r.fetch(ctx, was, next, known) }
}

func (r *Roster) fetch(ctx context.Context, was, next reading, known map[string][]string) (Group, error) {
	names, list, err := r.loop.Conn.ChildrenW(ctx, r.loop.Tree.Instances())
	if err != nil {
		return Group{}, err
	}
	changed, err := r.takeChanges(ctx)
	if err != nil {
		return Group{}, err
	}
	next.told = changed.told
	if next.orders, next.watched = was.orders, was.watched; !was.watched || changed.orders {
		if next.orders, next.watched, err = fetchOrders(ctx, r.loop); err != nil {
			return Group{}, err
		}
	}
	var unreadable map[string]error
	if next.excluded = was.excluded; !was.excluded.watched || changed.excluded {
		if next.excluded, unreadable, err = fetchExclusions(ctx, r.loop, was.excluded.byName); err != nil {
			return Group{}, err
		}
	}
	next.pzxid, next.records = list.Pzxid, make(map[string]instanceRead, len(names))
	var unread []string
	for _, sid := range names {
		record, found := was.records[sid]
		if found && list.Pzxid == was.pzxid && !changed.records[sid] && record.err == nil {
			next.records[sid] = record
		} else {
			unread = append(unread, sid)
		}
	}
	for _, i := range readInstances(ctx, r.loop, unread, r.loop.Conn.GetW) {
		if errors.Is(i.err, zkconn.ErrNoNode) {
			continue // gone in between
		}
		if zkconn.IsUnknown(i.err) {
			return Group{}, i.err
		}
		next.records[i.sid] = i
	}
	unreadableLists, err := r.fetchHandlers(ctx, &next, known)
	if err != nil {
		return Group{}, err
	}
	return r.groupOf(next, unreadable, unreadableLists), nil
}

// takeChanges returns the news of watches from before the answer that has just come beside the
// loop: that was queued first.
func (r *Roster) takeChanges(ctx context.Context) (told changes, err error) {
	answer := make(chan changes, 1)
	r.loop.Post(func() {
		answer <- r.changes
		r.changes = changes{told: r.changes.told}
	})
	select {
	case told = <-answer:
		return told, nil
	case <-ctx.Done():
		return told, zkconn.ErrLost
	}
}

// groupOf makes a Group of the records and orders. unreadable are the nodes beside them that could
// not be read.
func (r *Roster) groupOf(read reading, unreadable ...map[string]error) Group {
	g := Group{Peers: make(map[string]lease.Peer, len(read.records)), unreadable: make(map[string]error), reading: read}
	for _, some := range unreadable {
		maps.Copy(g.unreadable, some)
	}
	live := make(map[string]zkrec.Instance, len(read.records))
	for sid, i := range read.records {
		if i.err != nil {
			g.unreadable[r.loop.Tree.Instance(sid)] = i.err
		}
		if errors.Is(i.err, errNoSession) {
			continue
		}
		live[sid] = i.Instance
		ordered, found := read.orders[sid]
		host := read.excluded.byJob.Of("", "", i.Host)
		g.Peers[sid] = lease.Peer{
			Incarnation: i.Incarnation,
			Opaque:      i.err != nil, // it lives, and that is all that is known of it
			Closed:      i.Closed() || host != nil || found && ordered.Binds(i.Incarnation),
			MaxSlots:    i.MaxSlots,
			Weight:      i.Weight,
			Session:     time.Duration(i.SessionTimeout),
		}
	}
	g.able = ableOf(live, read.handlers, read.excluded.byJob)
	return g
}

// Follow takes in a reading of the group. It reports whether this instance is missing from it: the
// others consider it dead, and Lost is told.
func (m *Member) Follow(g Group) (lost bool) {
	if g.reading.number == m.Roster.readings {
		m.Roster.latest = g.reading
	}
	attempt := g.reading.attempt
	if attempt == m.loop.Attempt() && m.loop.Joined() && m.departure == (departure{}) &&
		g.Peers[m.cfg.ID].Incarnation != m.cfg.Instance.Incarnation {
		m.loop.Log.Error("this instance's node was deleted or overwritten; joining again",
			"path", m.loop.Tree.Instance(m.cfg.ID))
		m.loop.SetJoined(false)
		m.loop.Tell(Lost{})
		lost = true
	}
	for path, err := range g.unreadable {
		m.LogUnreadable(path, err)
	}
	m.Clock.follow(m.cfg.ID, g.reading.records)
	m.Cleanup.follow(g.Peers, g.reading.orders, attempt)
	m.Departed.follow(g.reading.records)
	m.Place.excluded = g.reading.excluded.byJob
	if !m.able.same(g.able) {
		m.able = g.able
		m.loop.Tell(AbleChanged{})
	}
	m.follow(g.reading.orders)
	m.Roster.follow(g.reading)
	return lost
}

// LogUnreadable says, once per path and reason, that a node of the group cannot be read.
func (m *Member) LogUnreadable(path string, err error) {
	level := slog.LevelError
	if zkconn.IsUnknown(err) || m.logged[path] == err.Error() {
		level = slog.LevelDebug
	}
	if m.logged == nil {
		m.logged = make(map[string]string)
	}
	m.logged[path] = err.Error()
	text := "group not fully known: a node cannot be read"
	if errors.Is(err, errNoSession) {
		text = "node ignored: it is not an instance"
	}
	m.loop.Log.Log(context.Background(), level, text, "path", path, "err", err)
}

// instanceRead is the reading of one instance.
type instanceRead struct {
	sid string
	zkrec.Instance
	stat zkconn.Stat
	err  error
}

// getting reads a node: zkconn.Conn.Get, or GetW to watch it, too.
type getting func(ctx context.Context, path string) ([]byte, zkconn.Stat, error)

// readInstances reads the records of some instances, at the cost of one round trip.
func readInstances(ctx context.Context, l *session.Loop, sids []string, get getting) []instanceRead {
	all := make([]instanceRead, len(sids))
	session.Together(len(sids), func(i int) {
		all[i].sid = sids[i]
		all[i].Instance, all[i].stat, all[i].err = readInstance(ctx, l, l.Tree.Instance(sids[i]), get)
	})
	return all
}

// readInstance reads a record. The error is errNoSession for a node that no session holds, and
// otherwise why nothing is known of an instance but that it lives.
func readInstance(
	ctx context.Context, l *session.Loop, path string, get getting,
) (record zkrec.Instance, stat zkconn.Stat, err error) {
	data, stat, err := get(ctx, path)
	if errors.Is(err, zkconn.ErrDenied) { // who holds it may be read by anyone
		if held, found, existsErr := l.Conn.Exists(ctx, path); existsErr == nil && found {
			stat = held
		} else if existsErr != nil {
			return record, stat, existsErr
		}
	}
	switch {
	case stat.Czxid != 0 && !stat.Ephemeral():
		return record, stat, errNoSession
	case err != nil:
		return record, stat, err
	}
	record, err = zkrec.ParseInstance(data)
	return record, stat, err
}
