package admin

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ahead is what was read in few requests before many jobs are read one by one. It is taken once: what is read
// again, because it may have changed, comes from the server.
type ahead struct {
	slots []string // of all jobs that were read

	mu   sync.Mutex
	read map[zkconn.Read][]zkconn.ReadResult
}

func (a *ahead) take(r zkconn.Read) (result zkconn.ReadResult, ok bool) {
	if a == nil {
		return zkconn.ReadResult{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	results := a.read[r]
	if len(results) == 0 {
		return zkconn.ReadResult{}, false
	}
	a.read[r] = results[1:]
	return results[0], true
}

// node reads a node.
func (c *Client) node(ctx context.Context, path string) ([]byte, zkconn.Stat, error) {
	if r, ok := c.ahead.take(zkconn.Read{Path: path}); ok {
		return r.Data, r.Stat, r.Err
	}
	return c.conn.Get(ctx, path)
}

// names lists the children of a node.
func (c *Client) names(ctx context.Context, path string) ([]string, error) {
	if r, ok := c.ahead.take(zkconn.Read{Path: path, Children: true}); ok {
		return r.Names, r.Err
	}
	names, _, err := c.conn.Children(ctx, path)
	return names, err
}

// readsPerAnswer is how many nodes are read before OnRead is called.
const readsPerAnswer = 2048

// readMany reads nodes. It fails if the outcome of a reading is not known.
func (c *Client) readMany(ctx context.Context, reads []zkconn.Read) ([]zkconn.ReadResult, error) {
	results := make([]zkconn.ReadResult, 0, len(reads))
	for some := range slices.Chunk(reads, readsPerAnswer) {
		for _, r := range c.conn.ReadMany(ctx, some) {
			if zkconn.IsUnknown(r.Err) {
				return nil, r.Err
			}
			results = append(results, r)
		}
		c.heard(len(some))
	}
	return results, nil
}

// readAhead returns a client for which the records of jobs were read, in the order in which read reads them: tick
// records before owner records, and those before registrations.
func (c *Client) readAhead(ctx context.Context, jobs []string) (*Client, error) {
	bulk := &Client{conn: c.conn, tree: c.tree, heard: c.heard, clock: c.clock, ahead: &ahead{read: make(map[zkconn.Read][]zkconn.ReadResult)}}
	var reads []zkconn.Read
	want := func(paths ...string) {
		for _, path := range paths {
			reads = append(reads, zkconn.Read{Path: path})
		}
	}
	read := func() error {
		results, err := c.readMany(ctx, reads)
		for i, r := range results {
			bulk.ahead.read[reads[i]] = append(bulk.ahead.read[reads[i]], r)
		}
		reads = nil
		return err
	}
	known := func(path string) zkconn.ReadResult { return bulk.ahead.read[zkconn.Read{Path: path}][0] }
	for _, job := range jobs {
		want(c.tree.Job(job), c.tree.Tick(job), c.tree.Alarm(job))
	}
	if err := read(); err != nil {
		return nil, err
	}
	rest := func(job string, slots ...string) {
		bulk.ahead.slots = append(bulk.ahead.slots, slots...)
		for _, slot := range slots {
			want(c.tree.Alive(slot))
			if tick, err := zkrec.ParseTick(known(c.tree.Tick(slot)).Data, time.Time{}); err == nil && tick.State != "" && tick.State != RunOK {
				want(c.tree.HistoryPages(slot)...)
			}
		}
		reads = append(reads, zkconn.Read{Path: c.tree.Register(job), Children: true})
	}
	var sharded []string
	slots, err := c.partsAhead(ctx, bulk, jobs)
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		if len(slots[job]) == 0 {
			slots[job] = shardsOf(job, known(c.tree.Job(job)).Data)
		}
		if len(slots[job]) == 0 {
			rest(job, job)
			continue
		}
		sharded = append(sharded, job)
		for _, slot := range slots[job] {
			want(c.tree.Tick(slot), c.tree.Alarm(slot))
		}
	}
	if err := read(); err != nil {
		return nil, err
	}
	for _, job := range sharded {
		rest(job, slots[job]...)
		want(c.tree.Shards(job), c.tree.Job(job))
	}
	return bulk, read()
}

// shardsOf lists the shards of a job. Few jobs have any, and only their records are parsed twice.
func shardsOf(job string, spec []byte) []string {
	if !bytes.Contains(spec, []byte(`"shards"`)) {
		return nil
	}
	var of parsed
	of.spec, of.err = zkrec.ParseSpec(job, spec)
	slots, err := of.slots(job)
	if err != nil || len(slots) == 1 && slots[0] == job {
		return nil
	}
	return slots
}

// owners calls use for each slot of the jobs that an owner record names an instance for. It reads no other record:
// of a job without shards, one.
func (c *Client) owners(ctx context.Context, jobs []string, use func(slot, sid string)) error {
	others, err := c.ownersOf(ctx, jobs, use)
	if err != nil {
		return err
	}
	reads := make([]zkconn.Read, len(others))
	for i, job := range others {
		reads[i] = zkconn.Read{Path: c.tree.Shards(job), Children: true}
	}
	lists, err := c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	var shards []string
	for i, list := range lists { // one that may not be read names nobody, or does not exist
		for _, name := range list.Names {
			if shard, ok := zkrec.ParseShard(name); ok {
				shards = append(shards, zkrec.ShardSlot(others[i], shard))
			}
		}
	}
	_, err = c.ownersOf(ctx, shards, use)
	return err
}

// ownersOf calls use for the slots whose owner record names an instance, and returns the others. A record that may not
// be read, or is unreadable, names nobody.
func (c *Client) ownersOf(ctx context.Context, slots []string, use func(slot, sid string)) (others []string, err error) {
	reads := make([]zkconn.Read, len(slots))
	for i, slot := range slots {
		reads[i] = zkconn.Read{Path: c.tree.Alive(slot)}
	}
	results, err := c.readMany(ctx, reads)
	for i, r := range results {
		if r.Err != nil && !errors.Is(r.Err, zkconn.ErrNoNode) && !errors.Is(r.Err, ErrDenied) {
			return nil, r.Err
		}
		if owner, _ := zkrec.ParseOwner(r.Data); owner.SID != "" {
			use(slots[i], owner.SID)
		} else {
			others = append(others, slots[i])
		}
	}
	return others, err
}
