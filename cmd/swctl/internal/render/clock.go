package render

import (
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Clock has times in the form that a reader wants. Cells of tables need no more of a Page.
type Clock struct {
	Now   time.Time // relative times count from it
	Times string    // one of those below; "" means that each table knows best
}

// The forms of times that a reader can want.
const (
	TimesRelative = "relative"
	TimesLocal    = "local"
	TimesUTC      = "utc"
)

// moment is a time in full and seen from now; "-" for the zero time.
func (c Clock) moment(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "-"
	}
	return plain.Moment(t, c.Now, c.in(zone))
}

// ago is a moment that tables have relative to now, and at one that they have in full, unless the
// reader wants otherwise.
func (c Clock) ago(t time.Time) string {
	if c.Times == TimesLocal || c.Times == TimesUTC {
		return plain.Absolute(t, c.in(nil))
	}
	return plain.Relative(t, c.Now)
}

// at is a moment that tables have in full, unless the reader wants otherwise.
func (c Clock) at(t time.Time, zone *time.Location) string {
	if c.Times == TimesRelative {
		return plain.Relative(t, c.Now)
	}
	return plain.Absolute(t, c.in(zone))
}

// in is the zone that the reader wants, or that one.
func (c Clock) in(zone *time.Location) *time.Location {
	switch c.Times {
	case TimesLocal:
		return time.Local //nolint:gosmopolitan // it is what the reader asks for
	case TimesUTC:
		return time.UTC
	}
	return zone
}

// slotCells is the end of a wide row.
func slotCells(c Clock, slot admin.JobStatus) []string {
	owner, since, token := ownerCells(c, slot)
	return []string{words.Health(slot), owner, since, token, lastCell(c, slot), c.ago(slot.NextRun), words.Line(slot.Conditions)}
}

// ownerCells is who owns a job, or a shard, since when and with which token.
func ownerCells(c Clock, job admin.JobStatus) (owner, since, token string) {
	if o := job.Owner; o != nil {
		return o.InstanceID, c.ago(o.Since), strconv.FormatInt(o.Token, 10)
	}
	return "", "", ""
}

// lastCell is the result of the last run of a job, or of its shards' last runs, with their tick.
func lastCell(c Clock, job admin.JobStatus) string {
	text := words.LastRun(job.LastRun, c.Now)
	if len(job.Slots) > 0 {
		text = words.LastOf(job.Slots, c.Now)
	}
	tick := words.LastTick(job)
	if result, dated := strings.CutSuffix(text, plain.Relative(tick, c.Now)); dated {
		return result + c.ago(tick)
	}
	return text
}
