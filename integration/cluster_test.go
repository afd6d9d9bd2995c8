package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// patience is how long a test waits for a condition. How quickly it becomes true is logged, not
// asserted.
const patience = 60 * time.Second

// everySecond is the schedule of most jobs.
const everySecond = "* * * * * ?"

// A cluster is one group of instances on a server, as seen by its operator.
type cluster struct {
	t       *testing.T
	server  *zkserver.Server
	servers string // connect string
	chroot  string
	group   string
	auth    string
	acl     string
	admin   *admin.Client
	dir     string
	ledger  *ledger
	log     *tailLog

	instances []*instance
	children  []*child

	// The server's data was replaced by its data at one time, zero if it was emptied, at another time.
	restoredTo, restoredAt time.Time
}

// attempts numbers the runs of each test: with -count, a test must find no nodes of its previous
// run on the shared server. The clusters of one test have the same group.
var (
	attempts sync.Map // by *testing.T
	attempt  atomic.Int64
)

func groupOf(t *testing.T) string {
	t.Helper()
	n, _ := attempts.LoadOrStore(t, attempt.Add(1))
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "."), n)
}

// newCluster returns a group without instances. At the end of the test it stops all instances and
// checks the invariants.
func newCluster(t *testing.T, server *zkserver.Server) *cluster {
	t.Helper()
	return newClusterAt(t, server, "", "")
}

// newClusterAt is newCluster with a chroot and credentials.
func newClusterAt(t *testing.T, server *zkserver.Server, chroot, auth string) *cluster {
	t.Helper()
	return newClusterOf(t, server, chroot, auth, groupOf(t))
}

// newClusterOf is newClusterAt with the name of the group.
func newClusterOf(t *testing.T, server *zkserver.Server, chroot, auth, group string) *cluster {
	t.Helper()
	c := &cluster{
		t: t, server: server, servers: server.Addr() + chroot, chroot: chroot,
		group: group, auth: auth, dir: t.TempDir(), log: &tailLog{},
	}
	c.ledger = &ledger{path: filepath.Join(c.dir, "ledger")}
	t.Cleanup(c.check)
	c.admin = c.dial(admin.Config{Auth: auth})
	return c
}

// dial connects as an operator, by default to the cluster's servers and group.
func (c *cluster) dial(cfg admin.Config) *admin.Client {
	c.t.Helper()
	if cfg.Servers == "" {
		cfg.Servers = c.servers
	}
	if cfg.ServerType == "" {
		cfg.ServerType = c.group
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	client, err := admin.Dial(ctx, cfg)
	if err != nil {
		c.t.Fatalf("dial: %v", err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// check checks the invariants at the end of a cluster.
func (c *cluster) check() {
	c.stopAll()
	entries, err := c.ledger.all()
	if err != nil {
		c.t.Error(err)
	}
	for _, violation := range slices.Concat(violations(c.before(entries)), violations(c.after(entries))) {
		c.t.Errorf("violation: %s", violation)
	}
	if !c.t.Failed() {
		return
	}
	c.t.Logf("log of the instances:\n%s", c.log.String())
	for _, child := range c.children {
		c.t.Logf("log of process %s:\n%s", child.id, child.logTail())
	}
}

// An instance is an instance in the test's process.
type instance struct {
	id    string
	proxy *zkserver.Proxy // nil unless Proxied
	leave context.CancelFunc
	done  chan struct{}
	err   error // what Run returned; read after done is closed
	taken bool  // err was looked at
}

// steady describes an instance that keeps its jobs until it hands them over or dies. On a busy
// machine, others take jobs whose ticks come late, and short sessions expire.
func steady() options {
	return options{Claim: singleworker.NoTakeovers, Session: singleworker.DefaultSessionTimeout, Sync: syncPeriod}
}

// start starts an instance in the test's process.
func (c *cluster) start(o options) *instance {
	c.t.Helper()
	i := &instance{done: make(chan struct{})}
	if o.Proxied {
		i.proxy = zkserver.NewProxy(c.t, c.server.Addr())
		o.Servers = i.proxy.Addr() + c.chroot
	}
	o = c.complete(o)
	i.id = o.ID
	m, err := newManager(o, c.ledger.add, slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		c.t.Fatalf("instance %s: %v", o.ID, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i.leave = cancel
	c.instances = append(c.instances, i)
	c.t.Cleanup(c.stopAll) // before the instance's proxy is closed
	go func() {
		defer close(i.done)
		i.err = m.Run(ctx)
	}()
	return i
}

// complete sets the defaults of o.
func (c *cluster) complete(o options) options {
	if o.ID == "" {
		o.ID = string(rune('a' + len(c.instances) + len(c.children)))
	}
	if o.Servers == "" {
		o.Servers = c.servers
	}
	if o.Group == "" {
		o.Group = c.group
	}
	if o.Auth == "" {
		o.Auth, o.ACL = c.auth, c.acl
	}
	if o.Session == 0 {
		o.Session = session
	}
	if o.Sync == 0 {
		o.Sync = min(syncPeriod, o.Session)
	}
	if o.Grace == 0 {
		o.Grace = 2 * time.Second
	}
	return o
}

// stop stops an instance and returns Run's error.
func (c *cluster) stop(i *instance) error {
	c.t.Helper()
	i.leave()
	return c.wait(i)
}

// wait waits for Run to return.
func (c *cluster) wait(i *instance) error {
	c.t.Helper()
	i.taken = true
	select {
	case <-i.done:
		return i.err
	case <-time.After(patience):
		c.t.Fatalf("Run of instance %s has not returned after %v", i.id, patience)
		return nil
	}
}

// stopAll stops all running instances. If the test has not checked an instance's Run error, it must
// be nil.
func (c *cluster) stopAll() {
	for _, i := range c.instances {
		i.leave()
	}
	for _, child := range c.children {
		child.kill()
	}
	for _, i := range c.instances {
		select {
		case <-i.done:
			if i.err != nil && !i.taken {
				c.t.Errorf("Run of instance %s: %v", i.id, i.err)
			}
			i.taken = true
		case <-time.After(patience):
			c.t.Errorf("Run of instance %s has not returned after %v\n%s", i.id, patience, allStacks())
		}
	}
}

// submit submits a job for everySecond.
func (c *cluster) submit(name, handler string) admin.Change {
	c.t.Helper()
	return c.submitJob(job.Job{Name: name, Schedule: everySecond, Handler: handler}, admin.SubmitOptions{})
}

func (c *cluster) submitJob(j job.Job, opts admin.SubmitOptions) admin.Change {
	c.t.Helper()
	result, err := c.admin.Submit(c.t.Context(), j, opts)
	if err != nil {
		c.t.Fatal(err)
	}
	return result
}

// submitAll submits n jobs with the handler work and returns their names: prefix-000 and so on.
func (c *cluster) submitAll(n int, prefix string) (names []string) {
	c.t.Helper()
	for k := range n {
		name := fmt.Sprintf("%s-%03d", prefix, k)
		c.submit(name, work)
		names = append(names, name)
	}
	return names
}

func (c *cluster) get(name string) admin.JobStatus {
	c.t.Helper()
	status, err := c.admin.Get(c.t.Context(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return status
}

// entries returns the ledger in the order of time.
func (c *cluster) entries() []entry {
	c.t.Helper()
	entries, err := c.ledger.all()
	if err != nil {
		c.t.Fatal(err)
	}
	return entries
}

// runs returns all runs of a job, or of all jobs if it is empty.
func (c *cluster) runs(job string) []run {
	c.t.Helper()
	runs := runsOf(c.entries())
	return slices.DeleteFunc(runs, func(r run) bool { return job != "" && r.Job != job })
}

// eventually waits until cond returns "".
func (c *cluster) eventually(what string, cond func() error) {
	c.t.Helper()
	const first, most = 10 * time.Millisecond, 200 * time.Millisecond
	began := time.Now()
	for pause := first; ; pause = min(2*pause, most) {
		err := cond()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			c.t.Fatalf("waited %v in vain for %s: %v", patience, what, err)
		}
		<-time.After(pause)
	}
}

// throughout checks that cond returns "" for some time.
func (c *cluster) throughout(d time.Duration, what string, cond func() error) {
	c.t.Helper()
	const pause = 100 * time.Millisecond
	for began := time.Now(); time.Since(began) < d; <-time.After(pause) {
		if err := cond(); err != nil {
			c.t.Fatalf("%s, after %v: %v", what, time.Since(began), err)
		}
	}
}

// awaitRun waits for a run of the job that began after since and meets all conditions.
func (c *cluster) awaitRun(job string, since time.Time, conditions ...func(run) bool) (found run) {
	c.t.Helper()
	c.eventually("a run of "+job, func() error {
		runs := c.runs(job)
		for _, r := range runs {
			ok := r.At.After(since)
			for _, condition := range conditions {
				ok = ok && condition(r)
			}
			if ok {
				found = r
				return nil
			}
		}
		return fmt.Errorf("none of %d runs", len(runs))
	})
	return found
}

// Conditions for awaitRun.
func on(sid string) func(run) bool    { return func(r run) bool { return r.SID == sid } }
func notOn(sid string) func(run) bool { return func(r run) bool { return r.SID != sid } }
func is(one run) func(run) bool       { return func(r run) bool { return r.ID == one.ID } }
func ended(r run) bool                { return !r.End.IsZero() }
func endedBy(cause error) func(run) bool {
	return func(r run) bool { return ended(r) && strings.Contains(r.Cause, cause.Error()) }
}

// owners returns the live owner of each job that has one, and the live instances.
func (c *cluster) owners() (owner map[string]string, counts map[string]int, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	jobs, err := c.admin.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	live, err := c.admin.Instances(ctx)
	if err != nil {
		return nil, nil, err
	}
	owner, counts = make(map[string]string), make(map[string]int)
	for _, i := range live {
		counts[i.ID] = 0
	}
	for _, job := range jobs {
		if job.State == admin.StateOwned {
			owner[job.Name] = job.Owner.InstanceID
			counts[job.Owner.InstanceID]++
		}
	}
	return owner, counts, nil
}

// awaitEven waits until all jobs are owned by n instances whose counts differ by at most one.
func (c *cluster) awaitEven(jobs, instances int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d jobs spread evenly over %d instances", jobs, instances), func() error {
		return c.even(jobs, instances)
	})
}

// awaitRest waits until the jobs are even, and none has changed hands for three sync periods. It
// returns when the last one did.
func (c *cluster) awaitRest(jobs, instances int) (last time.Time) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d jobs to stay with %d instances", jobs, instances), func() error {
		if err := c.even(jobs, instances); err != nil {
			return err
		}
		for _, e := range c.entries() {
			if e.Event == owned {
				last = e.At
			}
		}
		if quiet := time.Since(last); quiet < 3*syncPeriod {
			return fmt.Errorf("a job moved %v ago", quiet)
		}
		return nil
	})
	return last
}

func (c *cluster) even(jobs, instances int) error {
	owner, counts, err := c.owners()
	if err != nil {
		return err
	}
	shares := slices.Sorted(maps.Values(counts))
	if len(owner) != jobs || len(shares) != instances || shares[len(shares)-1]-shares[0] > 1 {
		return fmt.Errorf("%d jobs are owned, by %v", len(owner), counts)
	}
	return nil
}

// ownedBy returns the jobs that an instance owns, sorted.
func (c *cluster) ownedBy(sid string) (jobs []string) {
	c.t.Helper()
	owner, _, err := c.owners()
	if err != nil {
		c.t.Fatal(err)
	}
	for job, by := range owner {
		if by == sid {
			jobs = append(jobs, job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// moves counts the takeovers since a time.
func (c *cluster) moves(since time.Time) (n int) {
	c.t.Helper()
	for _, e := range c.entries() {
		if e.Event == owned && e.At.After(since) {
			n++
		}
	}
	return n
}

// raw opens a plain ZooKeeper connection without chroot, for manual edits.
func (c *cluster) raw(auth string) *zk.Conn {
	c.t.Helper()
	conn, _, err := zk.Connect([]string{c.server.Addr()}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	if auth != "" {
		c.must(conn.AddAuth("digest", []byte(auth)))
	}
	return conn
}

// node returns the full path of a node of the group.
func (c *cluster) node(parts ...string) string {
	return strings.Join(append([]string{c.chroot, c.group}, parts...), "/")
}

// create creates a node that everyone can access.
func (c *cluster) create(conn *zk.Conn, data string, parts ...string) {
	c.t.Helper()
	_, err := conn.Create(c.node(parts...), []byte(data), 0, zk.WorldACL(zk.PermAll))
	c.must(err)
}

func (c *cluster) exists(conn *zk.Conn, parts ...string) bool {
	c.t.Helper()
	found, _, err := conn.Exists(c.node(parts...))
	c.must(err)
	return found
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// contextFor returns the test's context with a deadline.
func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// wantErr checks that err is the wanted one.
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// silent is a logger for clients whose server fails on purpose.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}

// A tailLog keeps the last bytes written to it.
type tailLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// logBytes is how many bytes of a log a failed test prints.
const logBytes = 64 << 10

// Write implements io.Writer.
func (l *tailLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len() > 2*logBytes {
		rest := bytes.Clone(l.buf.Bytes()[logBytes:])
		l.buf.Reset()
		l.buf.Write(rest)
	}
	return l.buf.Write(p)
}

func (l *tailLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tailOf(l.buf.String())
}

func tailOf(text string) string { return text[max(0, len(text)-logBytes):] }
