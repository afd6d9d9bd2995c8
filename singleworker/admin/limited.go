package admin

import (
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// limited lists the limits of which a run of the slot waits for places: its owner waits for some,
// and has not claimed the run.
func (r records) limited(slot ticks.Job, now time.Time) (waits []LimitWait) {
	var since time.Time
	needs := slot.Policy.Limits
	for _, name := range slot.Policy.LimitNames() {
		of, mine := r.basis.places[name], func(w WaitingInstance) bool { return w.InstanceID == r.owner.SID }
		if !slices.ContainsFunc(of.Waiting, mine) {
			continue
		}
		if since.IsZero() {
			unlimited := *slot.Policy // nobody has claimed it, whatever the limits
			unlimited.Limits, slot.Policy = nil, &unlimited
			if since = ticks.Unclaimed(slot, r.tick, nil, now); since.IsZero() {
				return nil
			}
		}
		waits = append(waits, LimitWait{name, needs[name], r.basis.limits[name].Max, of.Held, zkrec.UTC(since)})
	}
	return waits
}

// limited is "waits for limit crm-api: 2 of 2 held by report, sync", or "" if the job waits for
// none.
func (s *JobStatus) limited() string {
	if len(s.Limited) == 0 {
		return ""
	}
	texts := make([]string, len(s.Limited))
	for i, w := range s.Limited {
		if texts[i] = w.Words(); len(w.Held) > 0 {
			texts[i] += " by " + Holders(w.Held)
		}
	}
	return "waits for " + strings.Join(texts, ", and for ")
}
