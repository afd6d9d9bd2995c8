package deputy

import (
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// An operator's request comes at no known time, so who asks tells the first deputy of a slot as
// well as its owner. An instance that becomes the first deputy reads earlier requests.

// requests are those for owners that this instance has read as a deputy.
type requests struct {
	read    map[string]bool // by slot
	changes int             // of the protocol, when Sync last looked for slots whose requests are to be read
	again   time.Duration   // Mono: when all are read although nothing tells
}

// forget has them be read again.
func (r *requests) forget() { r.read, r.changes = make(map[string]bool), -1 }

// Sync reads the requests for the owners of slots whose first deputy this instance has become.
func (d *Deputy) Sync() {
	d.lookSooner()
	if now := d.loop.Now(); now >= d.asked.again {
		d.asked.forget()
		d.asked.again = d.loop.NextLook()
	}
	changes := d.owner.Changes()
	if d.pace.least < 0 || changes == d.asked.changes {
		return
	}
	d.asked.changes = changes
	d.catalog.Jobs(func(job *catalog.Job) {
		for _, slot := range job.Slots {
			if !d.asked.read[slot] && d.isFirst(slot) {
				d.readManual(slot)
			}
		}
	})
}

func (d *Deputy) isFirst(slot string) bool {
	_, rank, is := d.owner.Deputy(slot)
	return is && rank == 0
}

// Asked follows the requests for the owners of slots, which have changed: of all, if none is named.
func (d *Deputy) Asked(slots []string) {
	if slots == nil {
		d.asked.forget()
		d.Sync()
	}
	for _, slot := range slots {
		if delete(d.asked.read, slot); d.pace.least >= 0 && d.isFirst(slot) {
			d.readManual(slot)
		}
	}
}

func (d *Deputy) readManual(slot string) {
	d.asked.read[slot] = true
	owner.ReadManual(d.loop, slot, func(requests []ticks.Request, err error) {
		if err != nil {
			delete(d.asked.read, slot)
			d.asked.changes = -1
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

// readsOfManual lists the reads that show which of the known requests still wait: nobody tells when
// they are done.
func (l *look) readsOfManual(d *Deputy) (reads []zkconn.Read) {
	for _, r := range l.w.manual {
		reads = append(reads, zkconn.Read{Path: d.loop.Tree.Request(l.w.slot, r.ID)})
	}
	return reads
}

// takeManual applies the results of readsOfManual.
func (l *look) takeManual(known []ticks.Request, results []zkconn.ReadResult) {
	for i, r := range known {
		switch err := results[i].Err; {
		case errors.Is(err, zkconn.ErrNoNode):
			l.w.manual = slices.DeleteFunc(slices.Clone(l.w.manual), func(other ticks.Request) bool { return other.ID == r.ID })
		case err != nil:
			l.err = err
		}
	}
}
