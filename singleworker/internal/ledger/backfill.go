package ledger

import (
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// taken is a tick that a transaction takes off a backfill.
type taken struct {
	slot, of, id string
	left         int // ticks that the backfill is to have afterwards
}

// judgeTaken verifies that a request that is taken off a backfill is for its next tick. It is
// called before the model has it.
func (l *Ledger) judgeTaken(slot, id string, request zkrec.Request) {
	of := zkrec.BackfillOf(id)
	if of == "" {
		return
	}
	var backfill zkrec.Request
	if j := l.model.Jobs[slot]; j != nil {
		backfill = j.Requests[of]
	}
	if backfill.Kind != zkrec.RequestBackfill {
		if l.whole {
			l.violatef(Claim, slot, "request %s is taken off a backfill that does not wait", id)
		}
		return
	}
	nextID, next, rest := backfill.Next(of)
	if id != nextID || request.Tick != next.Tick || request.Attempt != next.Attempt || request.Failures != next.Failures || request.Past != next.Past {
		l.violatef(Claim, slot, "request %s is for attempt %d at %s, and the next of its backfill is %s, for attempt %d at %s", id, request.Attempt,
			clockMs(request.Tick), nextID, next.Attempt, clockMs(next.Tick))
	}
	left := rest.Backfill.Left()
	if left == 0 {
		add(l.claimed, slot, of) // so its owner deletes it
	}
	l.taken = append(l.taken, taken{slot, of, id, left})
}

// judgeLeft verifies that a transaction leaves nothing in a backfill of which it has taken a tick,
// and that it claims that tick.
func (l *Ledger) judgeLeft() {
	for _, t := range l.taken {
		j := l.model.Jobs[t.slot]
		if j == nil {
			continue
		}
		if left := j.Requests[t.of].Backfill.Left(); left != t.left {
			l.violatef(Claim, t.slot, "request %s is taken off a backfill that then has %d ticks left, not %d", t.id, left, t.left)
		}
		if j.Tick.Manual != t.id {
			l.violatef(Claim, t.slot, "request %s is taken off a backfill and not claimed", t.id)
		}
	}
	l.taken = nil
}

// noteOutlived takes in that a request may be deleted without a run: the slot has a layout that
// began after its past ticks.
func (l *Ledger) noteOutlived(slot, id string) {
	j := l.model.Jobs[slot]
	if j == nil {
		return
	}
	request := j.Requests[id]
	if request.Kind == zkrec.RequestBackfill {
		_, request, _ = request.Next(id)
	}
	if request.Past != "" && request.Tick <= j.Spec.ActiveLayout().Since {
		add(l.claimed, slot, id)
	}
}
