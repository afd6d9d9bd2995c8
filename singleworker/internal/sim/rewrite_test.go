package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// breach is a rule of the protocol that an instance breaks: on the way to the server, so that
// the instance is the production code, and believes that it kept the rule.
type breach struct {
	// check gives the version of the node that an operation of a transaction checks, and the node,
	// instead of the true ones; of a creation, the node that it creates.
	check func(op zkdev.Op, path string, version int32) (string, int32)
	// keeps is in the paths of nodes that operations check instead of deleting them.
	keeps string
	// data is the data that an operation of a transaction writes instead of its own.
	data func(path string, data []byte) []byte
	// granted is the session timeout that the instance is told.
	granted time.Duration
	// late is how much later the instance gets its messages, from half a minute after it has connected
	// on.
	late time.Duration
	// hasty: the keeper of a job's shards is told that each run has ended.
	hasty bool
	// heedless: the instance is told that BeforeTick has returned nil for each run of a job's first
	// shard.
	heedless bool
	// hurried: the instance is told nothing of the Jitter of jobs.
	hurried bool
	// oneParent: the instance is told of the first of a job's parents alone.
	oneParent bool
	// onePlaceMore: the instance is told of one more place than there is.
	onePlaceMore bool
	// anyClock: the instance does not compare its clock with the server's.
	anyClock bool
	// unlimited: the instance has no MaxRunning. falseLabels: it says of itself that it has others
	// than it has.
	unlimited, falseLabels bool
	// first and last are deeds to a random group, before it and when its noise ends.
	first, last func(*world)
	// in makes worlds such that it can be found; nil: any.
	in func(*profile)
}

// dial is a swtest.Setup's Dial.
func (b *breach) dial(ctx context.Context, client *zkdev.Client) (net.Conn, error) {
	conn, err := client.Dial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	return b.between(conn), nil
}

// between puts the breach between the instance and its connection.
func (b *breach) between(conn net.Conn) net.Conn {
	return &rewriter{Conn: conn, breach: b, dialed: time.Now(), kept: make(map[uint32]bool)}
}

// rewriter changes frames. The client writes each frame at once.
type rewriter struct {
	net.Conn

	breach *breach
	dialed time.Time
	read   int // bytes of the connect response so far

	mu   sync.Mutex
	kept map[uint32]bool // by xid, requests of a keeper for what a shard has run
}

func (c *rewriter) Write(p []byte) (int, error) {
	const header = 12 // length, xid, type
	if (c.breach.hasty || c.breach.heedless) && len(p) > header && zkdev.Op(binary.BigEndian.Uint32(p[8:])) == zkdev.OpGetData &&
		bytes.HasSuffix(p, []byte("/tick\x01")) { // with a watch, which only the keeper sets, and who waits for BeforeTick
		c.mu.Lock()
		c.kept[binary.BigEndian.Uint32(p[4:])] = true
		c.mu.Unlock()
	}
	if c.breach.check == nil && c.breach.data == nil && c.breach.keeps == "" || len(p) < header || zkdev.Op(binary.BigEndian.Uint32(p[8:])) != zkdev.OpMulti {
		return c.Conn.Write(p)
	}
	ops := cursor{rest: p[header:]}
	frame := append(append([]byte(nil), p[:header]...), ops.multi(c.breach)...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := c.Conn.Write(frame); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Read changes the granted timeout: four bytes after the length and the version.
func (c *rewriter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if time.Since(c.dialed) > time.Minute/2 {
		time.Sleep(c.breach.late)
	}
	if c.breach.hasty {
		c.replace(p[:n], `"running"`, `"ok"     `)
	}
	if c.breach.heedless {
		c.replace(p[:n], `"schema":1`, `"passed":1`)
	}
	if c.breach.hurried {
		copy(p[:n], bytes.ReplaceAll(p[:n], []byte(`"jitter"`), []byte(`"litter"`)))
	}
	if c.breach.onePlaceMore {
		copy(p[:n], mostPlaces.ReplaceAllFunc(p[:n], oneMore))
	}
	if c.breach.oneParent {
		copy(p[:n], severalParents.ReplaceAllFunc(p[:n], firstParent))
	}
	if c.breach.granted == 0 {
		return n, err
	}
	ms := binary.BigEndian.AppendUint32(nil, uint32(c.breach.granted.Milliseconds()))
	for k := range n {
		if at := c.read + k - 8; at >= 0 && at < len(ms) {
			p[k] = ms[at]
		}
	}
	c.read += n
	return n, err
}

// replace has a record say something else, if it is read with a watch. A frame is read as a whole,
// after its length.
func (c *rewriter) replace(frame []byte, was, by string) {
	const xid = 4
	if len(frame) < xid {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := binary.BigEndian.Uint32(frame)
	if c.kept[id] && len(frame) > xid {
		delete(c.kept, id)
		copy(frame, bytes.Replace(frame, []byte(was), []byte(by), 1))
	}
}

// cursor reads a frame and writes another.
type cursor struct{ rest, out []byte }

// copy passes n bytes on.
func (c *cursor) copy(n int) []byte {
	head := c.rest[:n]
	c.rest, c.out = c.rest[n:], append(c.out, head...)
	return head
}

func (c *cursor) int() int32 { return int32(binary.BigEndian.Uint32(c.copy(4))) }

// data passes on the data that is written to a node.
func (c *cursor) data(path string, change func(path string, data []byte) []byte) {
	start := len(c.out)
	data := c.bytes()
	if change != nil && data != nil {
		data = change(path, data)
		c.out = append(binary.BigEndian.AppendUint32(c.out[:start], uint32(len(data))), data...)
	}
}

func (c *cursor) bytes() []byte { return c.copy(int(max(c.int(), 0))) }

const opHeader = 9 // of an operation: its type, whether it is the last, an error

// multi passes operations on, with the checks and the data that the breach says.
func (c *cursor) multi(b *breach) []byte {
	for {
		op := zkdev.Op(c.int())
		done := c.copy(1)[0] != 0
		c.int()
		if done {
			return c.out
		}
		start := len(c.out)
		path := string(c.bytes())
		between := len(c.out)
		if op == zkdev.OpDelete && b.keeps != "" && strings.Contains(path, b.keeps) {
			binary.BigEndian.PutUint32(c.out[start-opHeader:], uint32(zkdev.OpCheck))
		}
		switch op {
		case zkdev.OpCreate:
			c.bytes()
			for range c.int() {
				c.int()
				c.bytes()
				c.bytes()
			}
			c.int()
		case zkdev.OpSetData:
			c.data(path, b.data)
		default: // nothing between the path and the version
		}
		data := append([]byte(nil), c.out[between:]...)
		version := int32(-1)
		if op != zkdev.OpCreate { // which has none
			version = c.int()
		}
		if b.check != nil {
			path, version = b.check(op, path, version)
		}
		c.out = binary.BigEndian.AppendUint32(c.out[:start], uint32(len(path)))
		c.out = append(append(c.out, path...), data...)
		if op != zkdev.OpCreate {
			c.out = binary.BigEndian.AppendUint32(c.out, uint32(version))
		}
	}
}
