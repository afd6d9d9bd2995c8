package swtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/doctor"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/guard"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/notify"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
	"github.com/swjobs/singleworker/singleworker/web"
)

// A recordKind is corrupted in hundreds of jobs, one record in each.
type recordKind struct {
	name string
	spec string // of the job
	// path is the record's. base is its content if no instance has written it.
	path func(tree zkrec.Tree, job string) string
	base string
}

const (
	plainSpec = "*/5 * * * * ?"
	simple    = `{"schema":1,"schedule":"*/5 * * * * ?","handler":"work"}`
	rarely    = `{"schema":1,"schedule":"0 0 0 1 1 ?","handler":"work"}`
	divided   = `{"schema":1,"schedule":"*/5 * * * * ?","handler":"work","shards":2,"shard_params":{"0":"a","1":"b"}}`
	gatedSpec = `{"schema":4,"schedule":"*/5 * * * * ?","handler":"work","shards":2,"before_tick":"before"}`
	full      = `{"schema":1,"schedule":"*/5 * * * * ?","handler":"work","time_zone":"Europe/Berlin","args":{"a":"b"},"misfire":"all","interrupted":"rerun",` +
		`"overlap":"queue","timeout":"10s","retries":2,"backoff":"1s","priority":3,"alarm_after":"1m","notify":{"ops":["failed"]},"labels":{"a":"b"},"hung_after":"1h",` +
		`"since":5,"former":{"schedule":"@daily","since":3,"former":{"schedule":"@hourly","since":1}},` +
		`"declared":"x","declared_by":"app","declared_at":5,"declared_version":"1.0","instances":["i0","i1"],"payload":{"a":[1]},"description":"d"}`
	resharded  = `{"schema":1,"schedule":"*/5 * * * * ?","handler":"work","shards":3,"since":5,"layout":{"shards":2,"since":7,"until":9,"shard_params":{"0":"a"}}}`
	everySpec  = `{"schema":3,"schedule":"*/5 * * * * ?","handler":"work","everywhere":true}`
	onceOnly   = `{"schema":1,"schedule":"@at 2000-01-01T00:00:20Z","handler":"work","keep_done":"1h"}`
	alwaysSpec = `{"schema":1,"schedule":"@always","handler":"work"}`
)

func jobNode(tree zkrec.Tree, job string) string { return tree.Job(job) }

func ofSlot(slot func(job string) string, node func(zkrec.Tree, string) string) func(zkrec.Tree, string) string {
	return func(tree zkrec.Tree, job string) string { return node(tree, slot(job)) }
}

func firstShard(job string) string { return zkrec.ShardSlot(job, 0) }
func onI0(job string) string       { return zkrec.InstanceSlot(job, "i0") }

var recordKinds = []recordKind{
	{"spec, plain", plainSpec, jobNode, ""},
	{"spec, full", full, jobNode, ""},
	{"spec, resharded", resharded, jobNode, ""},
	{"spec, gated", gatedSpec, jobNode, ""},
	{"spec, everywhere", everySpec, jobNode, ""},
	{"spec, done", onceOnly, jobNode, ""},
	{"spec, always", alwaysSpec, jobNode, ""},
	{"tick", simple, zkrec.Tree.Tick, ""},
	{"tick, of a full job", full, zkrec.Tree.Tick, ""},
	{"tick, of a shard", divided, ofSlot(firstShard, zkrec.Tree.Tick), ""},
	{"tick, with a gate", gatedSpec, ofSlot(firstShard, zkrec.Tree.Tick), ""},
	{"tick, everywhere", everySpec, ofSlot(onI0, zkrec.Tree.Tick), ""},
	{"tick, always", alwaysSpec, zkrec.Tree.Tick, ""},
	{"tick, once", onceOnly, zkrec.Tree.Tick, ""},
	{"history", simple, zkrec.Tree.History, ""},
	{"history, of a shard", divided, ofSlot(firstShard, zkrec.Tree.History), ""},
	{"history, everywhere", everySpec, ofSlot(onI0, zkrec.Tree.History), ""},
	{"history, of no run", rarely, zkrec.Tree.History, `{"schema":1,"entries":[{"tick":946684805000,"run_id":"r","sid":"i0","token":1,"attempt":1,"state":"ok"}]}`},
	{"owner", simple, zkrec.Tree.Alive, ""},
	{"owner, everywhere", everySpec, ofSlot(onI0, zkrec.Tree.Alive), ""},
	{"heartbeat", simple, func(tree zkrec.Tree, job string) string { return tree.Heartbeat(job, "ghost") }, "946684800000"},
	{"complete", divided, zkrec.Tree.Shards, `{"schema":1,"tick":946684805000}`},
	{"alarm", simple, zkrec.Tree.Alarm, `{"schema":1,"tick":946684805000,"sid":"i0","at":"2000-01-01T00:00:05Z"}`},
	{"stack", simple, zkrec.Tree.Stack, `{"schema":1,"run_id":"r","sid":"i0","at":"2000-01-01T00:00:05Z","text":"main.work\n\t/app/main.go:1\n"}`},
	{"versions", simple, zkrec.Tree.Versions, `{"schema":1,"versions":[{"number":1,"at":1,"deed":{"schema":1,"kind":"set","by":"a"},"spec":{"schema":1,"schedule":"@daily"}},{"number":2}]}`},
	{
		"request to run", simple, func(tree zkrec.Tree, job string) string { return tree.Request(job, "r1") },
		`{"schema":1,"kind":"run","at":"2000-01-01T00:00:05Z","by":"a","reason":"b","args":{"a":"b"},"payload":{"a":1}}`,
	},
	{
		"request to stop", divided, func(tree zkrec.Tree, job string) string { return tree.Request(firstShard(job), "r1") },
		`{"schema":1,"kind":"stop","at":"2000-01-01T00:00:05Z","run_id":"x"}`,
	},
	{
		"switch", simple, zkrec.Tree.Register, `{"schema":1,"paused":{"since":1,"until":2,"by":"a","reason":"b","missed":"once"},"opened":2}`,
	},
	{"registration", simple, func(tree zkrec.Tree, job string) string { return tree.Registration(job, "i0") }, "x"},
	{"late", simple, func(tree zkrec.Tree, job string) string { return tree.Late(job, "x") }, "x"},
}

// hostile is a group in virtual time, with a good job that runs each second, and its readers.
type hostile struct {
	*testing.T

	c    *swtest.Cluster
	raw  *zkconn.Conn
	logs map[string]*lines // by program

	mu   sync.Mutex
	told map[string]int // how often somebody was told that a job fails

	programs  sync.WaitGroup
	stopFirst func()          // stops the latest sender of notifications
	ctx       context.Context //nolint:containedctx // of the programs
	stop      context.CancelFunc
}

var errCorrupted = errors.New("no paper")

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func inHostile(t *testing.T, test func(h *hostile)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := &hostile{T: t, c: swtest.New(t, swtest.Config{}), logs: make(map[string]*lines), told: make(map[string]int)}
		h.ctx, h.stop = context.WithCancel(context.Background())
		conn, err := zkconn.Open(zkconn.Config{Servers: "zkdev1:2181", SessionTimeout: time.Minute, Dial: h.c.Server.Dial}, func(zkconn.Event) {})
		h.must(err)
		defer conn.Close()
		h.raw = conn
		h.start("i0")
		h.start("i1")
		h.readers(dir, "from the beginning")
		test(h)
		if h.Failed() {
			for program, log := range h.logs {
				h.Logf("%s:\n%.1000s", program, log.text.String())
			}
		}
		h.stop()
		h.programs.Wait()
	})
}

func (h *hostile) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *hostile) log(program string) *slog.Logger {
	h.logs[program] = &lines{}
	return slog.New(slog.NewTextHandler(h.logs[program], nil))
}

// start starts an instance.
func (h *hostile) start(name string) {
	log := h.log(name)
	h.c.Start(name, swtest.Setup{
		Handlers:  map[string]singleworker.Handler{"work": working(time.Millisecond), "before": working(0), "fail": func(context.Context, *singleworker.Run) error { return errCorrupted }},
		Jobs:      []singleworker.Job{{Name: "good", Schedule: "* * * * * ?", Handler: "work"}, {Name: "failing", Schedule: "* * * * * ?", Handler: "fail"}},
		Configure: func(cfg *singleworker.Config) { cfg.Logger = log },
	})
}

// lasts runs a program until the end. It must not end before.
func (h *hostile) lasts(name string, f func(ctx context.Context) error) {
	h.programs.Go(func() {
		err := f(h.ctx)
		if h.ctx.Err() == nil {
			h.Errorf("%s has ended: %v", name, err)
		}
	})
}

func (h *hostile) config() admin.Config {
	return admin.Config{Servers: "zkdev1:2181", ServerType: "group", Dial: h.c.Server.Dial}
}

func (h *hostile) client() *admin.Client {
	client, err := admin.Dial(h.ctx, h.config())
	h.must(err)
	return client
}

// readers starts the readers that read all the time.
func (h *hostile) readers(dir, when string) {
	client := h.client()
	h.Cleanup(client.Close)
	h.lasts("watch "+when, func(ctx context.Context) error {
		for ev, err := range client.Watch(ctx, admin.WatchOptions{}) {
			if err != nil {
				return err
			}
			_ = words.Event(ev)
		}
		return nil
	})
	log := h.log("runlog " + when)
	h.lasts("runlog "+when, func(ctx context.Context) error {
		store, err := jsonl.Open(dir, jsonl.Options{})
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		return runlog.Run(ctx, client, store, runlog.Options{Group: when, Logger: log})
	})
	h.stopFirst = h.notifier(when)
	time.Sleep(time.Second)
}

// notifier starts one, which is to last until it is stopped.
func (h *hostile) notifier(id string) (stop func()) {
	n, err := notify.New(notify.Config{
		Group: h.config(), ID: id, Targets: map[string]notify.Sender{"ops": h}, Rules: []notify.Rule{{To: []string{"ops"}}},
		Gather: time.Second, Every: time.Second, Logger: h.log("notify " + id),
	})
	h.must(err)
	ctx, cancel := context.WithCancel(h.ctx)
	ended := make(chan struct{})
	h.programs.Go(func() {
		defer close(ended)
		if err := n.Run(ctx); ctx.Err() == nil {
			h.Errorf("notify %s has ended: %v", id, err)
		}
	})
	return func() { cancel(); <-ended }
}

// Most and Send implement notify.Sender.
func (*hostile) Most() int { return 0 }

func (h *hostile) Send(_ context.Context, m notify.Message) error {
	if _, err := json.Marshal(m); err != nil {
		h.Errorf("a message cannot be encoded: %v", err)
	}
	if strings.ContainsAny(m.Text(1<<20), "\x1b\u202e\x00") {
		h.Errorf("a message has control characters: %q", m.Text(1<<20))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, item := range m.Items {
		if item.Kind == notify.Failed {
			h.told[item.Job]++
		}
	}
	return nil
}

// write writes a node, whatever is there.
func (h *hostile) write(path string, data []byte) {
	h.Helper()
	_, err := h.raw.Multi(h.ctx, zkconn.SetOp(path, data, zkconn.AnyVersion))
	if errors.Is(err, zkconn.ErrNoNode) {
		_, err = h.raw.Multi(h.ctx, zkconn.CreateOp(path, data))
	}
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) { // it went with its job
		h.Fatalf("%s: %v", path, err)
	}
}

// create creates a job as somebody does who knows the records.
func (h *hostile) create(job string, spec zkrec.Spec) {
	h.Helper()
	var ops []zkconn.Op
	for _, node := range h.c.Tree().NewJob(job, spec) {
		ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
	}
	_, err := h.raw.Multi(h.ctx, ops...)
	h.must(err)
}

// read is the content of the node at a path, or base.
func (h *hostile) read(path, base string) []byte {
	data, _, err := h.raw.Get(h.ctx, path)
	if err != nil || len(data) == 0 {
		return []byte(base)
	}
	return data
}

// wantGood checks that the good job has run each second for the last ten, and that all that reads
// says so.
func (h *hostile) wantGood(jobs []string) {
	h.Helper()
	runs := make(map[int64]int)
	now := time.Now()
	for _, r := range h.c.Runs() {
		if r.Job == "good" && r.Tick.After(now.Add(-10*time.Second)) {
			runs[r.Tick.Unix()]++
		}
	}
	for _, n := range runs {
		if n != 1 {
			h.Errorf("a tick of the good job was run %d times", n)
		}
	}
	if len(runs) < 9 {
		h.Errorf("the good job ran %d times in the last ten seconds", len(runs))
	}
	for _, i := range h.c.Instances() {
		if i.State() != swtest.Running {
			h.Errorf("%s is %s", i.Name, i.State())
		}
	}
	h.mu.Lock()
	told := h.told["failing"]
	h.mu.Unlock()
	if told == 0 {
		h.Error("nobody was told that the failing job fails")
	}
	client := h.client()
	defer client.Close()
	h.list(client)
	for _, name := range append([]string{"good"}, jobs...) {
		h.verbs(client, name)
	}
	h.pages(client, jobs)
	g, err := guard.New(h.config())
	h.must(err)
	defer g.Close()
	if d, err := g.Deregister(h.ctx, func(guard.Instance) bool { return true }); err != nil || len(d.Removed) > 0 {
		h.Errorf("guard: %+v, %v", d, err)
	}
	l := ledger.New(h.c.Tree(), true, ledger.Observer{}, func(v ledger.Violation) {
		if v.Slot == "good" {
			h.Errorf("audit: %v", v)
		}
	})
	for _, txn := range swtest.Transactions(h.c.Server.Log()) {
		l.Apply(txn)
	}
}

// encodes renders a verb's value as JSON.
func (h *hostile) encodes(what string, value any, err error) {
	h.Helper()
	if err == nil {
		_, err = json.Marshal(value)
	}
	if err != nil {
		h.Errorf("%s: %v", what, err)
	}
}

func (h *hostile) list(client *admin.Client) {
	h.Helper()
	list, err := client.List(h.ctx)
	h.encodes("list", list, err)
	good := false
	for _, s := range list {
		_, _, _, _ = words.Health(s), words.Line(s.Conditions), words.LastRun(s.LastRun, time.Now()), words.Owner(s)
		if s.Name == "good" {
			good = s.State == admin.StateOwned && s.LastRun != nil && s.Overdue.IsZero()
		}
	}
	if !good {
		h.Error("the list has no good row of the good job")
	}
	all, err := client.Histories(h.ctx, list)
	h.encodes("histories", all, err)
	instances, err := client.Instances(h.ctx)
	h.encodes("instances", instances, err)
	for _, i := range instances {
		_ = words.OfInstance(i, time.Now())
	}
	d, err := client.Instance(h.ctx, "i0")
	h.encodes("instance", d, err)
	orders, err := client.Orders(h.ctx)
	h.encodes("orders", orders, err)
	names, err := client.Names(h.ctx)
	h.encodes("names", names, err)
	gone, err := client.Gone(h.ctx)
	h.encodes("gone", gone, err)
	did, err := client.Log(h.ctx, admin.LogOptions{})
	h.encodes("log", did, err)
	g, err := client.Group(h.ctx)
	h.encodes("group", g, err)
	e, err := client.Examine(h.ctx, g)
	h.encodes("doctor", doctor.Checks(e), err)
}

// verbs makes swctl's calls for one job.
func (h *hostile) verbs(client *admin.Client, name string) {
	h.Helper()
	lenient := func(what string, value any, err error) {
		h.Helper()
		if errors.Is(err, admin.ErrNotFound) && name != "good" { // the record said that it is gone
			return
		}
		h.encodes(what+" "+name, value, err)
	}
	s, err := client.Get(h.ctx, name)
	lenient("show", s, err)
	x, err := client.Why(h.ctx, name, time.Time{})
	lenient("why", x, err)
	if err == nil {
		_ = words.Why(x)
	}
	past, err := client.History(h.ctx, name)
	lenient("history", past, err)
	for _, e := range past.Entries {
		_ = words.Note(e, time.UTC, time.Now())
	}
	versions, err := client.Versions(h.ctx, name)
	if !errors.Is(err, admin.ErrUnreadable) { // so it is said of the one job
		lenient("versions", versions, err)
	}
	requests, err := client.Requests(h.ctx, name)
	lenient("requests", requests, err)
	nodes, err := client.Unreadable(h.ctx, name)
	lenient("repair", nodes, err)
}

// pages asks for the pages that a browser shows.
func (h *hostile) pages(client *admin.Client, jobs []string) {
	h.Helper()
	pages, err := web.Handler(client, web.Options{Logger: h.log("web")})
	h.must(err)
	get := func(path, want string) {
		h.Helper()
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(h.ctx, http.MethodGet, path, nil))
		switch body := w.Body.String(); {
		case w.Code >= http.StatusInternalServerError, want != "" && !strings.Contains(body, want):
			h.Errorf("%s: %d: %.300s", path, w.Code, body)
		case strings.ContainsAny(body, "\x1b\u202e\x00") || !strings.HasPrefix(path, "/api/") && strings.Contains(body, "<script>alert"):
			h.Errorf("%s: what somebody wrote is shown as it is", path)
		}
	}
	for _, path := range []string{"/", "/jobs", "/instances", "/timeline", "/calendar", "/api/v1/instances", "/instance?id=i0"} {
		get(path, "")
	}
	get("/jobs?q=good", "good")
	get("/api/v1/jobs", `"name":"good"`)
	for _, name := range append([]string{"good"}, jobs...) {
		name = url.QueryEscape(name)
		get("/job?name="+name, "")
		get("/api/v1/jobs/"+name, "")
		get("/api/v1/jobs/"+name+"/why", "")
		get("/api/v1/jobs/"+name+"/history", "")
	}
}

// wantSaidOnce checks that each record that cannot be read is named by an instance, and that no
// program says the same of one again.
func (h *hostile) wantSaidOnce(jobs, paths []string) {
	h.Helper()
	said := make(map[string]bool)
	for program, log := range h.logs {
		log.mu.Lock()
		text := log.text.String()
		log.mu.Unlock()
		if at := strings.Index(text, "panicked"); at >= 0 {
			h.Errorf("%s: %.1000s", program, text[max(0, at-200):])
		}
		again := make(map[string]int)
		for line := range strings.Lines(text) {
			_, line, _ = strings.Cut(line, " level=")
			_, path, found := strings.Cut(line, " path=")
			path, _, _ = strings.Cut(path, " ")
			what, _, _ := strings.Cut(line, " err=")
			if said[path] = true; found && slices.Contains(paths, path) {
				again[what]++
			}
		}
		for what, n := range again {
			if n > 1 {
				h.Errorf("%s says %d times: %s", program, n, what)
			}
		}
	}
	client := h.client()
	defer client.Close()
	for _, name := range jobs {
		nodes, _ := client.Unreadable(h.ctx, name)
		for _, node := range nodes {
			if !said[node.Path] {
				h.Errorf("no instance names %s: %s", node.Path, node.Error)
			}
		}
	}
}

// Of each kind of record, hundreds that no version would have written stand at once in a group, one
// in each of as many jobs. Their readers continue, whether they began before the records were
// written or after that, and the good job runs and is shown.
func TestCorruptedRecordsOfJobs(t *testing.T) {
	t.Parallel()
	for k, kind := range recordKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inHostile(t, func(h *hostile) {
				var jobs, paths []string
				tree := h.c.Tree()
				n := simkit.Share(corruptions)
				for i := range n {
					jobs = append(jobs, keyOf("bad", i))
					paths = append(paths, kind.path(tree, jobs[i]))
					spec, err := zkrec.ParseSpec(jobs[i], []byte(kind.spec))
					h.must(err)
					h.create(jobs[i], spec)
					h.write(tree.Job(jobs[i]), []byte(kind.spec))
				}
				time.Sleep(15 * time.Second)
				rng := rand.New(rand.NewPCG(uint64(k), simkit.Base()))
				for i, bad := range corrupted(h.read(paths[0], kind.base), n, rng) {
					h.write(paths[i], bad)
				}
				time.Sleep(15 * time.Second)
				h.wantGood(jobs)
				h.start("i2")
				h.readers(dir, "afterwards")
				time.Sleep(15 * time.Second)
				h.wantGood(nil)
				if kind.spec == rarely { // nobody reads what is wrong yet
					jobs = nil
				}
				h.wantSaidOnce(jobs, paths)
			})
		})
	}
}
