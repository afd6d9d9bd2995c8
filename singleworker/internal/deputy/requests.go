package deputy

import (
	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// An operator's request comes at no known time, so the first deputy of a slot watches the requests for its owner.

// Sync watches the requests for the owners of slots whose first deputy this instance has become.
func (d *Deputy) Sync() {
	d.lookSooner()
	state := [2]int{d.owner.Changes(), d.loop.Attempt()}
	if d.pace.least < 0 || state == d.state {
		return
	}
	d.state = state
	d.catalog.Jobs(func(job *catalog.Job) {
		for _, slot := range job.Slots {
			if d.asked[slot] != d.loop.Attempt() && d.isFirst(slot) {
				d.readManual(slot)
			}
		}
	})
}

func (d *Deputy) isFirst(slot string) bool {
	_, rank, is := d.owner.Deputy(slot)
	return is && rank == 0
}

// Requested follows the requests for the owner of a slot, which have changed.
func (d *Deputy) Requested(slot string) {
	if delete(d.asked, slot); d.pace.least >= 0 && d.isFirst(slot) {
		d.readManual(slot)
	}
}

func (d *Deputy) readManual(slot string) {
	attempt := d.loop.Attempt()
	d.asked[slot] = attempt
	owner.ReadManual(d.loop, slot, true, func(requests []ticks.Request, err error) {
		if err != nil {
			delete(d.asked, slot)
			d.state = [2]int{}
			return
		}
		if len(requests) == 0 && d.slots[slot] == nil || d.jobOf(slot) == nil {
			return
		}
		w := d.watched(slot)
		if w.manual = requests; len(requests) > 0 && !w.reading {
			d.putDue(w, d.now())
		}
	})
}
