package lease

import "slices"

// A Take by rule (c) is carried out in the steps in which package owner does it. Each is a request,
// and its answer decides the next one: the host itself has nothing to remember.
type (
	// prove creates a node below the tick node: as long as it is there, the job is the same.
	prove  struct{ take Take }
	proved struct {
		take    Take
		outcome Outcome
	}
	// inspect reads the owner record, the tick record and the proof.
	inspect   struct{ take Take }
	inspected struct {
		take    Take
		outcome Outcome // Refused if the slot is not to be taken
		version int32   // of the tick record
	}
	// relieve is the transaction.
	relieve struct {
		take    Take
		version int32
	}
	relieved struct{ done TakeDone }
	// dropProof deletes the proof if the transaction has not.
	dropProof struct{}
	dropped   struct{}
)

func (prove) action()     {}
func (inspect) action()   {}
func (relieve) action()   {}
func (dropProof) action() {}
func (proved) event()     {}
func (inspected) event()  {}
func (relieved) event()   {}
func (dropped) event()    {}

// mayRelieve reports whether a host may find that a run is overdue.
func (w *tiny) mayRelieve(k int) bool {
	return w.hosts[k].opened && w.rec.Owner != w.member(k)
}

// sendTake sends a Take, or the first step of one.
func (w *tiny) sendTake(k int, a Take) {
	switch {
	case !a.Overdue:
		w.send(k, a)
		if out := w.hosts[k].out; w.set.version > 0 && len(out) > 0 {
			out[len(out)-1].read = w.hosts[k].machine.slots[theJob].rec.Mzxid // out was copied by send
		}
	case w.set.breach == relievesWithoutProof:
		w.send(k, inspect{a})
	default:
		w.send(k, prove{a})
	}
}

// goOn does the next step of a Take by rule (c).
func (w *tiny) goOn(k int, ev Event) {
	refused := TakeDone{Slot: theJob, Outcome: Refused}
	switch ev := ev.(type) {
	case proved:
		if ev.outcome != Done {
			w.step(k, refused)
			return
		}
		w.send(k, inspect{ev.take})
	case inspected:
		if ev.outcome != Done {
			w.send(k, dropProof{})
			w.step(k, refused)
			return
		}
		w.send(k, relieve{ev.take, ev.version})
	case relieved:
		if ev.done.Outcome != Done {
			w.send(k, dropProof{})
		}
		w.step(k, ev.done)
	}
}

// checkUnrenewable checks that the owner that was relieved can no longer renew its lease.
func (w *tiny) checkUnrenewable(by int) {
	for k := range w.set.hosts {
		if _, beating := beatOf(w.rec, sidOf(k)); beating && k != by && w.guaranteed(k) {
			w.failf("(1) %s was relieved and can renew its lease", w.name(k))
		}
	}
}

// prove applies one of the steps.
func (w *tiny) prove(k int, by Member, r wire) Event {
	incarnation := int8(slices.Index(incarnations[k][:], by.Incarnation))
	proof := w.proofs[k] == incarnation || w.set.breach == relievesWithoutProof
	switch a := r.ask.(type) {
	case prove:
		w.zxid++
		w.proofs[k] = incarnation
		return proved{a.take, Done}
	case inspect:
		same := w.rec.Mzxid == a.take.Mzxid
		idle := !w.tick.open || w.set.breach == relievesOpenRuns
		alone := len(w.rec.Beats) == 1 && w.rec.Beats[0].SID == w.rec.Owner.SID
		if proof && same && idle && alone {
			a.take.Remove = w.rec.Beats
			return inspected{a.take, Done, w.tick.version}
		}
		return inspected{take: a.take, outcome: Refused}
	case relieve:
		refused := TakeDone{Slot: theJob, Outcome: Refused, SentAt: r.sent}
		if !proof || w.tick.version != a.version && w.set.breach != relievesAnyTick {
			w.zxid++
			return relieved{refused}
		}
		if w.set.breach == relievesAnyTick {
			a.take.Remove = w.rec.Beats
		}
		if w.set.breach == relievesBesideBeat {
			a.take.Remove = nil
		}
		done := w.take(by, a.take, r.sent)
		if done.Outcome == Done {
			w.proofs[k] = 0
			w.reliefs = append(slices.Clip(w.reliefs), done.Mzxid)
			w.checkUnrenewable(k)
		}
		return relieved{done}
	case dropProof:
		w.zxid++
		if w.proofs[k] == incarnation {
			w.proofs[k] = 0
		}
		return dropped{}
	}
	panic("no such request")
}
