package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// pair is a line of a description.
type pair struct{ Label, Text string }

// described is the description of a job: the fields that its JSON has.
func described(j job.Job) []pair {
	text, err := json.Marshal(j)
	if err != nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	var pairs []pair
	_, err = dec.Token() // {
	for err == nil && dec.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = dec.Token(); err == nil {
			err = dec.Decode(&value)
		}
		label, _ := name.(string)
		if label == "name" {
			continue
		}
		var plainly string
		if json.Unmarshal(value, &plainly) != nil {
			plainly = string(value)
		}
		pairs = append(pairs, pair{strings.ReplaceAll(label, "_", " "), plainly})
	}
	return pairs
}

// entryRow is an entry of the history in a table.
type entryRow struct {
	Tick            stamp
	Why             string // the link that explains the tick
	Slot, State     string
	Lag, Took, On   string
	Attempt         int
	Manual          bool
	Note, Error, ID string
}

func entryRowOf(of admin.JobStatus, e runlog.Entry, now time.Time) entryRow {
	zone := of.Job.Zone()
	row := entryRow{Tick: stamp{e.Tick, now, zone}, On: e.InstanceID, Attempt: e.Attempt, Manual: e.Manual != "", ID: e.RunID}
	row.State, row.Note = words.Logged(e, zone, now)
	if e.Slot != of.Name {
		row.Slot = e.Slot
	}
	if e.Kind == runlog.Gone {
		row.Tick.at = e.At
	}
	if !e.Tick.IsZero() && e.Kind != runlog.Hole {
		row.Why = tickLink(of.Name, e.Tick.UTC().Format(time.RFC3339))
	}
	if e.Kind != runlog.Hole && strings.TrimSpace(e.Error) != plain.FirstLine(e.Error) || len(e.Error) > clipped {
		row.Error = e.Error
	}
	if len(row.Note) > clipped {
		row.Note = strings.ToValidUTF8(row.Note[:clipped], "") + "…"
	}
	if !e.Started.IsZero() {
		row.Lag = plain.Span(e.Started.Sub(e.Tick))
		if end := endOf(e.Run, now); !end.IsZero() {
			row.Took = plain.Span(end.Sub(e.Started))
		}
	}
	return row
}

// tickRow is a tick to come.
type tickRow struct{ Local, UTC stamp }

// jobBody is the content of the page of a job.
type jobBody struct {
	jobRow

	Job        admin.JobStatus
	Pairs      []pair
	OwnerSince stamp
	Words      string // the meaning of the schedule
	Ticks      []tickRow
	OneZone    bool
	Entries    []entryRow
	More       int
	Log        logBody
	Slots      []jobRow
	Requests   []string
	Why        []string
	WhyOf      string
	Chart      chart
	Actions    *offered
}

func (p *pages) job(r *http.Request, _ *snapshot) (view, error) {
	ctx, name := r.Context(), r.FormValue("name")
	d, err := p.group.job(ctx, name)
	if err != nil {
		return view{}, err
	}
	now := p.group.now()
	b := jobBody{jobRow: rowOf(d.status, now), Job: d.status, Words: words.Schedule(d.status.Job), Pairs: described(d.status.Job), Actions: p.rights.offers(r, "jobs", d.status.Name, "trigger", "pause", "resume", "cancel")}
	past, err := p.group.past(ctx, name)
	if err != nil && !errors.Is(err, admin.ErrUnreadable) {
		return view{}, err
	}
	log, err := p.group.jobLog(ctx, name)
	if err != nil {
		return view{}, err
	}
	all := b.past(past.Entries, log, now)
	if p.group.log != nil {
		b.Log = logBodyOf(all, log, now)
	}
	if o := d.status.Owner; o != nil {
		b.OwnerSince = stamp{o.Since, now, d.status.Job.Zone()}
	}
	for _, slot := range d.status.Slots[:min(len(d.status.Slots), perPage)] {
		b.Slots = append(b.Slots, rowOf(slot, now))
	}
	for _, request := range d.requests {
		b.Requests = append(b.Requests, strings.TrimSpace(request.Kind+" of "+request.Slot+" "+plain.Relative(request.At, now)+" by "+request.By+" "+request.Reason))
	}
	b.ticks(d.status.Job, now)
	at, err := timeOf(r, "at")
	if err != nil {
		return view{}, err
	}
	if past.Why != nil && (!at.IsZero() || d.status.State != admin.StateInvalid) {
		b.Why, b.WhyOf = words.Why(past.Why(at)), r.FormValue("at")
	}
	return view{Template: "job", Title: d.status.Name, Now: now, Body: b}, nil
}

const (
	// maxEntries is how many entries a page has: with a long name in each link, it stays below 150 KB.
	maxEntries = 80
	// wholeErrors is how much of errors it has, in bytes.
	wholeErrors = 16 << 10
)

// past shows the entries of the job in ZooKeeper and in the run log, and returns all of them.
func (b *jobBody) past(held []history.Entry, log reading, now time.Time) []runlog.Entry {
	all := merged(b.Job, held, log.entries, true)
	b.More = max(0, len(all)-maxEntries)
	left := wholeErrors
	for _, e := range all[:min(len(all), maxEntries)] {
		row := entryRowOf(b.Job, e, now)
		if left -= len(row.Error); left < 0 {
			row.Error = ""
		}
		b.Entries = append(b.Entries, row)
	}
	b.Chart = chartOf(all, now)
	return all
}

// ticks are the next ten, in the job's time zone and in UTC.
func (b *jobBody) ticks(j job.Job, now time.Time) {
	const most = 10
	schedule, err := j.ParseSchedule()
	if err != nil {
		return
	}
	zone := j.Zone()
	b.OneZone = zone.String() == time.UTC.String()
	for _, tick := range api.TicksOf(schedule, now, most) {
		b.Ticks = append(b.Ticks, tickRow{stamp{tick.Tick, now, zone}, stamp{tick.Tick, now, time.UTC}})
	}
}

// logBody is the part of the page of a job about its run log.
type logBody struct {
	Problem string // why the log is not read, or not all of it
	Extent  string // how far back it goes
	Columns []string
	Rows    [][]string // one for the job, or for each of its shards
	More    int
}

// logBodyOf sums up the records of a job.
func logBodyOf(all []runlog.Entry, r reading, now time.Time) logBody {
	b := logBody{Problem: r.problem(), Columns: words.SummaryColumns}
	missing := 0
	for _, e := range all {
		if e.Seq == 0 && e.Kind != runlog.Hole && over(e.Run) {
			missing++
		}
	}
	switch last := len(r.entries) - 1; {
	case last < 0 && r.err == nil:
		b.Extent = "The run log has nothing of this job yet."
	case r.whole:
		b.Extent = "The run log of this job begins at " + logged(r.entries[last].At) + ": what was before then was not kept, or has been removed."
	}
	if len(r.entries) > 0 && missing == 1 {
		b.Extent += " It does not have the latest entry yet."
	} else if len(r.entries) > 0 && missing > 1 {
		b.Extent += fmt.Sprintf(" It does not have the latest %d entries yet.", missing)
	}
	sums := summed(all)
	b.More = max(0, len(sums)-perPage)
	for _, s := range sums[:min(len(sums), perPage)] {
		b.Rows = append(b.Rows, words.Summary(s, now))
	}
	return b
}
