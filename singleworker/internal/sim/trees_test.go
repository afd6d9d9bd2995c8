package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const (
	hostileTrees   = 20  // by default a tenth
	hostileRecords = 100 // of each tree

	goodJobs   = 5
	longestGap = 2 * time.Second // between two runs of a job that is due every second

	// requestsPerRecord bounds the requests of instances in steady state, per hostile record and
	// second: a record that cannot be read is read again once in a sync period.
	requestsPerRecord = 4
)

// TestHostileTrees writes nodes that no version of singleworker would write, all over the tree of a
// group: random bytes, JSON of other shapes, records of a megabyte, odd names, nodes where none
// belongs, ephemeral instead of persistent ones and the other way round, and nodes that nobody may
// read, or list, or change. The jobs that are not concerned run on without a gap, are taken over
// from an instance that dies, and by one that joins; nobody asks without a pause; and operators can
// list everything.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	trees := simkit.Seeds(hostileTrees)
	for n := range uint64(trees) {
		seed := simkit.Base() + n
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newHostileTree(t, seed).run() })
		})
	}
	t.Logf("hostile records: %d", trees*hostileRecords)
}

// hostileTree is a group and somebody who writes into its tree.
type hostileTree struct {
	*testing.T

	rng     *rand.Rand
	cluster *swtest.Cluster
	tree    zkrec.Tree
	evil    []*zkconn.Conn // each gives its nodes another ACL
	places  []string       // nodes below which more can be created
	told    []string       // what was written

	mu       sync.Mutex
	requests map[string]int // of instances, by their place
}

func newHostileTree(t *testing.T, seed uint64) *hostileTree {
	t.Helper()
	h := &hostileTree{T: t, rng: rand.New(rand.NewPCG(seed, 7)), requests: make(map[string]int)}
	h.cluster = swtest.New(t, swtest.Config{SessionTimeout: 4 * time.Second, SyncPeriod: time.Second})
	h.tree = h.cluster.Tree()
	for op := zkdev.OpCreate; op <= zkdev.OpMulti; op++ {
		h.cluster.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.requests[r.Client]++
			return zkdev.Pass()
		})
	}
	for _, acl := range []string{"world:anyone:cdrwa", "auth::cdrwa", "world:anyone:r,auth::cdrwa", "world:anyone:cdwa"} {
		conn, err := zkconn.Open(zkconn.Config{
			Servers: "zkdev:1", SessionTimeout: 10 * time.Second, Auth: "evil:evil", ACL: acl,
			Dial: h.cluster.Server.Client("evil").Dial, Logger: slog.New(slog.DiscardHandler),
		}, func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		h.evil = append(h.evil, conn)
	}
	return h
}

func (h *hostileTree) setup() swtest.Setup {
	work := func(context.Context, *singleworker.Run) error { return nil }
	setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"work": work, "other": work}}
	for k := range goodJobs {
		setup.Jobs = append(setup.Jobs, singleworker.Job{Name: fmt.Sprintf("good-%d", k), Schedule: "* * * * * ?", Handler: "work"})
	}
	return setup
}

func (h *hostileTree) run() {
	a := h.cluster.Start("a", h.setup())
	b := h.cluster.Start("b", h.setup())
	time.Sleep(5 * time.Second)
	begun := time.Now()
	h.places = []string{h.tree.Root(), h.tree.Instances(), h.tree.Orders()}
	for len(h.told) < hostileRecords {
		h.write()
		time.Sleep(time.Duration(h.rng.IntN(200)) * time.Millisecond)
	}
	h.wantBounded(10 * time.Second)
	h.wantRuns(begun, time.Now(), longestGap)
	h.wantLists(a, b)

	died := time.Now()
	b.Kill()
	time.Sleep(8 * time.Second) // the session, a tick of the server, and what it takes to adopt
	h.wantRuns(died.Add(7*time.Second), time.Now(), longestGap)
	c := h.cluster.Start("c", h.setup())
	time.Sleep(10 * time.Second)
	h.wantRuns(died.Add(8*time.Second), time.Now(), longestGap)
	for _, i := range []*swtest.Instance{a, c} {
		if i.State() != swtest.Running {
			h.Errorf("%s is %v", i.Name, i.State())
		}
	}
	if !slices.ContainsFunc(h.cluster.Runs(), func(run swtest.Run) bool { return run.Instance == c }) {
		h.Error("an instance that joins gets no job")
	}
}

// write writes one node, unless it cannot be written.
func (h *hostileTree) write() {
	conn := h.evil[0]
	if h.rng.IntN(3) == 0 {
		conn = h.evil[h.rng.IntN(len(h.evil))]
	}
	parent := h.places[h.rng.IntN(len(h.places))]
	if h.rng.IntN(2) == 0 {
		parent = h.tree.Root()
	}
	path := parent + "/" + h.name(parent)
	if strings.Contains(path, "/good-") || slices.Contains([]string{
		h.tree.Order("a"), h.tree.Order("b"), h.tree.Order("c"), h.tree.Instance("c"), // orders bind, whatever they say
	}, path) {
		return
	}
	data, create := h.data(), zkconn.CreateOp
	if h.rng.IntN(6) == 0 {
		create = zkconn.CreateEphemeralOp
	}
	if _, err := conn.Multi(h.Context(), create(path, data)); err != nil {
		return // it exists, or may not be created there
	}
	h.told = append(h.told, fmt.Sprintf("%q: %.80q", path, data))
	if strings.Count(path, "/") < 5 {
		h.places = append(h.places, path, path) // deeper nodes are rarer
	}
	if parent == h.tree.Root() && h.rng.IntN(3) > 0 {
		h.furnish(path)
	}
}

// furnish creates most of the nodes of a job, so that the fault is in one of them only.
func (h *hostileTree) furnish(job string) {
	for _, node := range []string{"/register", "/alive", "/tick", "/history", "/requests"} {
		if h.rng.IntN(6) == 0 {
			continue
		}
		if _, err := h.evil[0].Multi(h.Context(), zkconn.CreateOp(job+node, nil)); err == nil {
			h.places = append(h.places, job+node)
		}
	}
}

// name is the name of a node: one that means something, or an odd one.
func (h *hostileTree) name(parent string) string {
	odd := []string{
		" lead", "trail ", "report[3]", "a\u202eb", "\u00a0", "[0]", "-1", "07", "9999999999", "good", "%2e%2e", "a b", "\"", "\\",
		strings.Repeat("x", 201), strings.Repeat("レ", 3000), strings.Repeat("n", 200), "é", "e\u0301", "..x", "{", "null",
		"_instances", "_disabled", "_leader", "_unknown", "_", "zookeeper",
	}
	known := []string{
		"alive", "tick", "history", "requests", "register", "alarm", "shards", "0", "1", "2", "a", "b", "ghost",
		"019a0000-0000-7000-8000-000000000000",
	}
	switch {
	case h.rng.IntN(3) == 0:
		return odd[h.rng.IntN(len(odd))]
	case parent != h.tree.Root() && h.rng.IntN(4) > 0:
		return known[h.rng.IntN(len(known))]
	}
	return fmt.Sprintf("bad-%d", h.rng.IntN(1000))
}

// data is the data of a node.
func (h *hostileTree) data() []byte {
	switch h.rng.IntN(8) {
	case 0:
		return nil
	case 1:
		noise := make([]byte, h.rng.IntN(200))
		for k := range noise {
			noise[k] = byte(h.rng.Uint32())
		}
		return noise
	case 2:
		return []byte(strings.Repeat([]string{"x", "[", `{"former":`, "\x00", "9"}[h.rng.IntN(5)], 1<<h.rng.IntN(17)))
	case 3:
		return []byte([]string{"* * * * * ?", "@every 1s", "0 0 3 * * ?", "@at 9999-12-31T23:59:59Z", "1 2 3", "-1"}[h.rng.IntN(6)])
	}
	data, err := json.Marshal(h.object(0))
	if err != nil {
		h.Fatal(err)
	}
	if h.rng.IntN(10) == 0 {
		data = data[:h.rng.IntN(len(data))]
	}
	return data
}

// object is like a record, with values of any type.
func (h *hostileTree) object(depth int) map[string]any {
	keys := []string{
		"schema", "schedule", "time_zone", "handler", "shards", "shard_params", "layout", "paused", "opened", "over", "for", "since", "until", "former", "args",
		"payload", "timeout", "misfire", "overlap", "interrupted", "max_attempts", "labels", "canceled", "declared", "sid", "incarnation", "offer",
		"watermark", "tick", "run_id", "token", "attempt", "state", "started", "ended", "next_attempt", "next_attempt_at", "busy_since", "entries",
		"count", "to", "kind", "at", "by", "reason", "mode", "host", "pid", "weight", "max_slots", "session_timeout", "owned", "standby", "alarm_after",
	}
	object := make(map[string]any)
	if depth == 0 && h.rng.IntN(2) == 0 {
		object["schedule"], object["handler"] = "* * * * * ?", "work"
	}
	for range 1 + h.rng.IntN(6) {
		object[keys[h.rng.IntN(len(keys))]] = h.value(depth)
	}
	return object
}

func (h *hostileTree) value(depth int) any {
	values := []any{
		nil, true, -1, 0, 1, 2, 1e308, int64(1<<63 - 1), int64(-1 << 63), "", "a", "b", "ghost", "work", "* * * * * ?", "@every 1s",
		"run", "stop", "running", "active", "latch", "retry", "rerun", "../..", "\x1b[31m\u202e", "1h", "-1h", "Asia/Shanghai", time.Now().UnixMilli(),
		time.Now().Add(time.Hour).UnixMilli(), "2026-11-22T00:00:00Z", strings.Repeat("x", 5000),
	}
	switch h.rng.IntN(8) {
	case 0:
		if depth < 3 {
			return h.object(depth + 1)
		}
	case 1:
		if depth < 3 {
			return []any{h.value(depth + 1), h.value(depth + 1)}
		}
	}
	return values[h.rng.IntN(len(values))]
}

// wantBounded counts the requests of the instances in steady state.
func (h *hostileTree) wantBounded(d time.Duration) {
	h.mu.Lock()
	clear(h.requests)
	h.mu.Unlock()
	time.Sleep(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	for place, n := range h.requests {
		perSecond := float64(n) / d.Seconds()
		h.Logf("%s: %.0f requests/s", place, perSecond)
		if perSecond > requestsPerRecord*hostileRecords {
			h.Errorf("%s asks %.0f times a second beside %d hostile records", place, perSecond, hostileRecords)
		}
	}
}

// wantRuns expects that each good job was run without a gap.
func (h *hostileTree) wantRuns(from, to time.Time, longest time.Duration) {
	h.Helper()
	last := make(map[string]time.Time)
	for k := range goodJobs {
		last[fmt.Sprintf("good-%d", k)] = from
	}
	check := func(job string, at time.Time) {
		if gap := at.Sub(last[job]); gap > longest {
			h.Errorf("%s: no run for %v, until %v", job, gap, at)
			h.Log(strings.Join(h.told, "\n"))
		}
	}
	for _, run := range h.cluster.Runs() {
		if _, good := last[run.Job]; good && run.Started.After(from) && !run.Started.After(to) {
			check(run.Job, run.Started)
			last[run.Job] = run.Started
		}
	}
	for job := range last {
		check(job, to)
	}
}

// wantLists expects that operators see everything: the good as it is, and other nodes where a job
// could be.
func (h *hostileTree) wantLists(live ...*swtest.Instance) {
	h.Helper()
	err := h.cluster.Operate(h.Context(), func(client *admin.Client) error {
		list, err := client.List(h.Context())
		if err != nil {
			return err
		}
		instances, err := client.Instances(h.Context())
		if err != nil {
			return err
		}
		states := make(map[string]admin.State)
		for _, s := range list {
			states[s.Name] = s.State
			if _, err := json.Marshal(s); err != nil {
				h.Errorf("%q in JSON: %v", s.Name, err)
			}
		}
		for k := range goodJobs {
			if name := fmt.Sprintf("good-%d", k); states[name] != admin.StateOwned {
				h.Errorf("%s is listed as %q", name, states[name])
			}
		}
		names, _, err := h.evil[0].Children(h.Context(), h.tree.Root())
		if err != nil {
			return err
		}
		for _, name := range names {
			is, invalid := zkrec.JobName(name)
			if state, listed := states[name]; is && !listed && !h.isCanceled(name) || invalid != nil && state != admin.StateInvalid {
				h.Errorf("%q: listed %v, as %q", name, listed, state)
			}
		}
		for _, i := range live {
			if !slices.ContainsFunc(instances, func(l admin.Instance) bool { return l.ID == i.Name && l.State == admin.InstanceActive }) {
				h.Errorf("%s is not listed as active: %+v", i.Name, instances)
			}
		}
		return nil
	})
	if err != nil {
		h.Errorf("list: %v", err)
	}
}

func (h *hostileTree) isCanceled(job string) bool {
	data, _, err := h.evil[0].Get(h.Context(), h.tree.Job(job))
	spec, specErr := zkrec.ParseSpec(job, data)
	return err == nil && specErr == nil && spec.Canceled
}
