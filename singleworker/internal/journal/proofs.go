package journal

import (
	"errors"
	"maps"
	"path"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// proofs are ephemeral nodes below the jobs that come before owned ones. Each proves to claims,
// which check that it is there, that its job is still the one that was read. It costs two requests
// when the first slot that needs it is owned, in each session, and one when none is any more.
type proofs struct {
	journal *Journal
	all     map[string]*proof // by the path of the job
}

// proof is a node, or none. It is of one session, and no later proof has its path.
type proof struct {
	making  bool
	path    string // "": there is none
	session int64
	created int64 // the transaction that had created the job when the node was there
}

// of lists the proofs for a decision on ticks that rests on these nodes. known is false if one is
// not there yet: when it is, the slots that wait are told.
func (ps *proofs) of(named zkrec.NodeVersions) (paths []string, known bool) {
	known = true
	for job, created := range named.Jobs() {
		p := ps.all[job]
		if p == nil {
			p = new(proof)
			ps.all[job] = p
		}
		if p.path == "" || p.created != created || p.session != ps.journal.loop.Conn.SessionID() {
			known = false
			ps.make(job, p)
			continue
		}
		paths = append(paths, p.path)
	}
	return paths, known
}

// make creates another proof, and then reads which job has it.
func (ps *proofs) make(job string, p *proof) {
	l := ps.journal.loop
	if p.making || !l.Joined() {
		return // the next sync tries again
	}
	ps.remove(p)
	made := proof{path: zkconn.ProofPath(job, l.Chance.ID("proof of "+job)), session: l.Conn.SessionID()}
	p.making = true
	l.Write(session.Claims, []zkconn.Op{zkconn.CreateEphemeralOp(made.path, nil)}, func(r session.Result) {
		if r.Err != nil {
			p.making = false
			l.Log.Debug("proof not created", "path", made.path, "err", r.Err)
			return
		}
		l.Read(zkconn.ReadsOf(job), func(results []zkconn.ReadResult) {
			made.created = results[0].Stat.Czxid
			if *p = made; results[0].Err != nil {
				ps.remove(p)
				return
			}
			ps.journal.Gates.proven(job)
		})
	})
}

// remove deletes a proof. It ends with the session if that fails.
func (ps *proofs) remove(p *proof) {
	node, l := p.path, ps.journal.loop
	if p.path = ""; node == "" || p.session != l.Conn.SessionID() {
		return
	}
	l.Write(session.Others, []zkconn.Op{zkconn.DeleteOp(node, zkconn.AnyVersion)}, func(r session.Result) {
		if r.Err != nil && !errors.Is(r.Err, zkconn.ErrNoNode) {
			l.Log.Debug("node not deleted; it ends with the session", "path", node, "err", r.Err)
		}
	})
}

// lost takes in that a node is not there, which may be a proof: its job is gone, or somebody has
// deleted it.
func (ps *proofs) lost(node string) {
	if p := ps.all[path.Dir(node)]; p != nil && p.path == node {
		p.path = ""
	}
}

// sync makes the proofs that are missing, and deletes those that no owned slot needs any more.
func (ps *proofs) sync() {
	if len(ps.all) == 0 {
		return
	}
	needed := make(map[string]bool)
	for _, job := range ps.journal.Gates.children() {
		for ancestor := range job.Version.Named.Jobs() {
			needed[ancestor] = true
		}
		ps.of(job.Version.Named)
	}
	for _, job := range slices.Sorted(maps.Keys(ps.all)) {
		if p := ps.all[job]; !needed[job] && !p.making {
			ps.remove(p)
			delete(ps.all, job)
		}
	}
}
