package diff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// An op is a request, for either server.
type op struct {
	code   int32
	name   string
	record buf
	paths  []string
	parts  []op // of a multi
	zxidAt int  // where the record has a zxid, which differs by server; -1 for nowhere
	silent bool // it may get no reply
}

func (o op) String() string { return o.name }

// A generator generates operations that mostly succeed, often fail for a reason, and are sometimes
// invalid. It depends on its seed and on the replies.
type generator struct {
	*rand.Rand

	epoch    int      // the tree moves on, away from nodes that ACLs have locked
	known    []string // nodes that exist, more or less
	versions map[string]int32
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 1)), versions: map[string]int32{}}
}

func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// created and deleted update the generator's view of the tree.
func (g *generator) created(path string) {
	if !slices.Contains(g.known, path) {
		g.known = append(g.known, path)
	}
	g.versions[path] = 0
}

func (g *generator) deleted(path string) {
	g.known = slices.DeleteFunc(g.known, func(p string) bool { return p == path })
	delete(g.versions, path)
}

// moveOn starts a new subtree.
func (g *generator) moveOn() {
	g.epoch++
	g.known = nil
}

var oddPaths = []string{
	"", "/", "//", "a", "/a/", "/a//b", "/./a", "/a/..", "/a/.", "/...", "/.a", "/a\x00b", "/a\x01", "/a\u007f", "/a\u0085", "/\ufff0",
	"/\ud7ff", "/\ue000", "/\U0001F600", "/\xff\xfe", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/zookeeper/quota/x", "/é", "/ ", "a/b", "/a/b/c/d/e",
}

// path returns a path that exists, may exist, or is invalid.
func (g *generator) path() string {
	switch n := g.IntN(100); {
	case n < 2:
		return pick(g, oddPaths...)
	case n < 5:
		return "/"
	case n < 65 && len(g.known) > 0:
		return pick(g, g.known...)
	}
	return g.fresh()
}

// fresh returns a path that may or may not exist, mostly below one that does.
func (g *generator) fresh() string {
	name := fmt.Sprintf("%c%d", 'a'+rune(g.IntN(5)), g.epoch)
	if g.oneIn(8) {
		name = pick(g, "lock-", "node", "é", "x"+strings.Repeat("y", g.IntN(30)), "\u65e5\u672c")
	}
	if len(g.known) == 0 || g.oneIn(4) {
		return "/" + name
	}
	parent := pick(g, g.known...)
	if strings.Count(parent, "/") > 4 {
		return parent
	}
	return parent + "/" + name
}

func (g *generator) version(path string) int32 {
	switch g.IntN(6) {
	case 0, 1:
		return -1
	case 2:
		return int32(g.IntN(4)) - 1
	}
	return g.versions[path]
}

func (g *generator) data() []byte {
	switch g.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return make([]byte, g.IntN(3000))
	}
	return []byte(strconv.Itoa(g.IntN(1000)))
}

func (g *generator) acl(b *buf) {
	type entry struct {
		perms      int32
		scheme, id string
	}
	var list []entry
	if !g.oneIn(8) {
		list = []entry{{31, "world", "anyone"}}
	} else {
		for range g.IntN(4) {
			list = append(list, entry{pick[int32](g, 31, 31, 1, 2, 4, 8, 16, 3, 15, 0, -1), "", ""})
			last := &list[len(list)-1]
			last.scheme, last.id = pick(g, "world", "world", "auth", "digest", "ip"), ""
			switch last.scheme {
			case "world":
				last.id = pick(g, "anyone", "anyone", "anyone", "someone")
			case "auth":
				last.id = pick(g, "", "x")
			case "digest":
				last.id = pick(g, "u1:"+digest1, "u2:"+digest2, "u1", "u1:a:b", ":", "a::", ":x")
			case "ip":
				last.id = pick(g, "127.0.0.1", "127.0.0.0/8", "10.0.0.1", "10.0.0.0/33", "1.2.3", "::1", "127.0.0.1/x", "0.0.0.0/0", "127.0.0.255/30")
			}
		}
		if len(list) > 0 && g.oneIn(4) {
			list = append(list, list[0])
		}
		if g.oneIn(20) {
			list = append(list, entry{31, "nonsense", "x"})
		}
	}
	b.i32(int32(len(list)))
	for _, e := range list {
		b.i32(e.perms).str(e.scheme).str(e.id)
	}
}

// The digests of u1:p1 and u2:p2.
const (
	digest1 = "fpT/y03U+EjItKZOSLGvjnJlyng="
	digest2 = "o9NxcCGDPOlcV7JVhmKHOf5ctVE="
)

// write returns an operation that a multi can contain.
func (g *generator) write() op {
	o := op{zxidAt: -1}
	switch n := g.IntN(100); {
	case n < 45:
		o.code = pick[int32](g, opCreate, opCreate, opCreate2)
		path, flags := g.fresh(), pick[int32](g, 0, 0, 0, 1, 1, 2, 3)
		if g.oneIn(20) {
			path = g.path()
		}
		if g.oneIn(100) {
			flags = pick[int32](g, 9, -1, 7, 5, 6)
		}
		if flags == 2 && g.oneIn(4) {
			path += "/"
		}
		data := g.data()
		o.record.str(path).bytes(data)
		g.acl(&o.record)
		o.record.i32(flags)
		o.name = fmt.Sprintf("create(op %d) %q flags %d, %d bytes", o.code, path, flags, len(data))
		o.paths = []string{path}
	case n < 65:
		o.code = opDelete
		path := g.path()
		version := g.version(path)
		o.record.str(path).i32(version)
		o.name = fmt.Sprintf("delete %q version %d", path, version)
		o.paths = []string{path}
	case n < 90:
		o.code = opSetData
		path, data := g.path(), g.data()
		version := g.version(path)
		o.record.str(path).bytes(data).i32(version)
		o.name = fmt.Sprintf("setData %q version %d, %d bytes", path, version, len(data))
		o.paths = []string{path}
	default:
		o.code = opCheck
		path := g.path()
		version := g.version(path)
		o.record.str(path).i32(version)
		o.name = fmt.Sprintf("check %q version %d", path, version)
		o.paths = []string{path}
	}
	return o
}

// next returns an operation of any kind.
func (g *generator) next() op {
	switch n := g.IntN(100); {
	case n < 38:
		o := g.write()
		o.silent = o.code == opCheck // a successful check gets no reply
		return o
	case n < 50:
		return g.multi()
	case n < 82:
		return g.readOp()
	case n < 86:
		return g.setACL()
	case n < 90:
		return g.watches()
	case n < 93:
		return g.auth()
	case n < 95:
		return g.multiRead()
	}
	return g.odd()
}

func (g *generator) multi() op {
	m := op{code: opMulti, zxidAt: -1, name: "multi"}
	for range g.IntN(6) {
		o := g.write()
		m.record.i32(o.code).bool(false).i32(-1)
		m.record = append(m.record, o.record...)
		m.name += "; " + o.name
		m.paths = append(m.paths, o.paths...)
		m.parts = append(m.parts, o)
	}
	if g.oneIn(60) {
		m.record.i32(pick[int32](g, opSetACL, opGetData, opExists, 77)).bool(false).i32(-1).str("/a").i32(0)
		m.name += "; and nonsense"
	}
	m.record.i32(-1).bool(true).i32(-1)
	return m
}

func (g *generator) readOp() op {
	path := g.path()
	o := op{code: pick[int32](g, opExists, opExists, opGetData, opGetData, opGetChildren, opGetChildren2, opGetACL,
		opSync, opGetEphemerals, opCountChildren), zxidAt: -1, paths: []string{path}}
	o.record.str(path)
	watch := g.oneIn(2)
	switch o.code {
	case opExists, opGetData, opGetChildren, opGetChildren2:
		o.record.bool(watch)
	default:
		watch = false
	}
	o.name = fmt.Sprintf("read(op %d) %q watch %v", o.code, path, watch)
	return o
}
