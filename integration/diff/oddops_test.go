package diff

import "fmt"

func (g *generator) setACL() op {
	path := g.path()
	if path == "/" {
		path = g.fresh() // changing the root's ACL would make the rest of the test fail
	}
	o := op{code: opSetACL, zxidAt: -1, paths: []string{path}}
	version := pick[int32](g, -1, -1, 0, 1)
	o.record.str(path)
	g.acl(&o.record)
	o.record.i32(version)
	o.name = fmt.Sprintf("setACL %q version %d", path, version)
	return o
}

// watches is a setWatches as sent by a reconnected client, or a check or removal of watches.
func (g *generator) watches() op {
	o := op{zxidAt: -1}
	if g.oneIn(2) {
		path, kind := g.path(), pick[int32](g, 1, 2, 3, 3, 0, 4)
		o.code = pick[int32](g, opCheckWatches, opRemoveWatches)
		o.record.str(path).i32(kind)
		o.name, o.paths = fmt.Sprintf("watches(op %d) %q kind %d", o.code, path, kind), []string{path}
		return o
	}
	return g.setWatches(pick[int64](g, 0, 1, 5, 20, 100, 1000))
}

// setWatches covers the last back transactions.
func (g *generator) setWatches(back int64) op {
	o := op{code: pick[int32](g, opSetWatches, opSetWatches, opSetWatches2), name: fmt.Sprintf("setWatches since %d ago", back)}
	o.record.i64(back)
	for range 3 {
		var list []string
		for range g.IntN(5) {
			list = append(list, g.path())
		}
		o.record.strs(list)
		o.paths = append(o.paths, list...)
		o.name += fmt.Sprintf(" %q", list)
	}
	if o.code == opSetWatches2 {
		o.record.strs(nil).strs(nil)
	}
	return o
}

func (g *generator) auth() op {
	o := op{code: opAuth, zxidAt: -1}
	scheme, token := pick(g, "digest", "digest", "digest", "ip"), pick(g, "u1:p1", "u2:p2", "u3", "u4:a:b", "")
	o.record.i32(0).str(scheme).str(token)
	o.name = fmt.Sprintf("auth %s %q", scheme, token)
	return o
}

func (g *generator) multiRead() op {
	o := op{code: opMultiRead, zxidAt: -1, name: "multiRead"}
	for range g.IntN(4) {
		path, code := g.path(), pick[int32](g, opGetData, opGetChildren)
		o.record.i32(code).bool(false).i32(-1).str(path).bool(g.oneIn(2)) // a watch, which must have no effect
		o.name += fmt.Sprintf(" op %d %q", code, path)
		o.paths = append(o.paths, path)
	}
	o.record.i32(-1).bool(true).i32(-1)
	return o
}

// odd returns requests that no client library sends: truncated records, nulls, and unsupported
// operations.
func (g *generator) odd() op {
	o := op{zxidAt: -1}
	switch g.IntN(6) {
	case 0:
		o = g.write()
		if g.oneIn(3) {
			o = g.multi()
		}
		o.record = o.record[:g.IntN(len(o.record))]
		o.name = "cut short: " + o.name
	case 1:
		o = g.readOp()
		o.record = o.record[:g.IntN(len(o.record))]
		o.name = "cut short: " + o.name
	case 2:
		o.code = pick[int32](g, opDelete, opSetData, opCheck, opExists, opGetData, opGetChildren, opGetChildren2, opGetACL, opSync, opGetEphemerals)
		o.record.i32(-1).i32(-1).i32(-1)
		o.name = fmt.Sprintf("op %d with a null path", o.code)
	case 3:
		o.code = opMulti
		o.record.i32(opDelete).bool(false).i32(-1).i32(-1).i32(-1).i32(-1).bool(true).i32(-1)
		o.name = "multi with a null path"
	case 4:
		o.code = opReconfig
		o.record.str("x").str("y").str("z").i64(-1)
		o.name = "reconfig"
	case 5:
		o.code = pick[int32](g, opWhoAmI, opPing)
		o.name = fmt.Sprintf("op %d", o.code)
	}
	o.silent = o.code == opCheck
	return o
}
