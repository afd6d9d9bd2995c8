package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
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
		pairs = append(pairs, pair{strings.ReplaceAll(label, "_", " "), legibly(value)})
	}
	return pairs
}

// legibly is a value of JSON as text: "a=1, b=2" of texts by name, "a, b" of a list of texts.
func legibly(value json.RawMessage) string {
	var text string
	var list []string
	var named map[string]string
	switch {
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &list) == nil:
		return strings.Join(list, ", ")
	case json.Unmarshal(value, &named) == nil:
		return reason.Labels(named)
	}
	return string(value)
}

// entryRow is an entry of the history in a table.
type entryRow struct {
	Tick            stamp
	Why             string // the link that explains the tick
	Slot            string
	State           state
	Lag, Took, On   string
	Link            string // to where more is known of the run, see Options.RunURL
	Attempt         int
	Manual          bool
	Note, Error, ID string
	Retry           *retry // nil if that makes no sense
}

func (p *pages) entryRowOf(of admin.JobStatus, e runlog.Entry, l look) entryRow {
	row := entryRow{Tick: l.stamp(e.Tick), On: e.InstanceID, Attempt: e.Attempt, Manual: e.Manual != "", ID: e.RunID, State: runState(e.State), Link: runLink(p.runURL, of, e, l.now)}
	row.State.Word, row.Note = words.Logged(e, l.zone, l.now)
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
		if end := endOf(e.Run, l.now); !end.IsZero() {
			row.Took = plain.Span(end.Sub(e.Started))
		}
	}
	return row
}

// retry asks for a further attempt at the tick of a run that did not succeed.
type retry struct{ Path, Tick string }

// tickRow is a tick to come.
type tickRow struct{ Job, Viewer stamp }

// runLink leads from a run to where more is known of it, by a template: see Options.RunURL.
func runLink(template string, of admin.JobStatus, e runlog.Entry, now time.Time) string {
	if template == "" || e.RunID == "" {
		return ""
	}
	var fields []string
	add := func(field, value string) { fields = append(fields, "{"+field+"}", url.QueryEscape(value)) }
	add("run", e.RunID)
	add("job", of.Name)
	add("instance", e.InstanceID)
	for field, at := range map[string]time.Time{"started": e.Started, "ended": e.Ended} {
		if at.IsZero() { // it runs
			at = now
		}
		add(field, at.UTC().Format(time.RFC3339))
		add(field+"_ms", strconv.FormatInt(at.UnixMilli(), 10))
	}
	return strings.NewReplacer(fields...).Replace(template)
}

// jobBody is the content of the page of a job.
type jobBody struct {
	jobRow

	Job        admin.JobStatus
	Error      string // the whole one of the last run that has one
	Pairs      []pair // of the description, as it was given
	Standard   []pair // as they are if nobody says otherwise
	OwnerSince stamp
	Words      string // the meaning of the schedule
	Ticks      []tickRow
	OneZone    bool // the viewer's is the job's
	Entries    []entryRow
	More       int
	Log        logBody
	Slots      jobTable
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
	l := p.look(r)
	b := jobBody{jobRow: rowOf(d.Job, l), Job: d.Job, Words: words.Schedule(d.Job.Job), Actions: p.rights.offers(r, "jobs", d.Job.Name, verbsOf(d.Job)...)}
	b.Pairs, b.Standard = parted(d.Job.Job)
	log, err := p.group.jobLog(ctx, name)
	if err != nil {
		return view{}, err
	}
	all := merged(d.Job, d.Entries, log.entries, true)
	p.past(&b, all, l)
	if p.group.log != nil {
		b.Log = logBodyOf(all, log, l.now)
	}
	if o := d.Job.Owner; o != nil {
		b.OwnerSince = l.stamp(o.Since)
	}
	var slots []jobRow
	for _, slot := range d.Job.Slots[:min(len(d.Job.Slots), perPage)] {
		slots = append(slots, rowOf(slot, l))
	}
	b.Slots = jobTableOf(nil, slots)
	for _, request := range d.Requests {
		what := request.Kind
		if b := request.Backfill; b != nil {
			what = words.Backfill(*b, l.stamp(b.Next).Full())
		}
		b.Requests = append(b.Requests, strings.TrimSpace(what+" of "+request.Slot+" "+plain.Relative(request.At, l.now)+" by "+request.By+" "+request.Reason))
	}
	b.ticks(d.Job, l)
	at, err := timeOf(r, "at")
	if err != nil {
		return view{}, err
	}
	if run := d.Job.LastRun; at.IsZero() && d.Job.Hung != nil && run != nil {
		at = run.Tick // not those that are skipped meanwhile
	}
	if !at.IsZero() || d.Job.State != admin.StateInvalid {
		b.Why, b.WhyOf = words.Why(d.Why(at)), r.FormValue("at")
	}
	return view{Template: "job", Title: d.Job.Name, look: l, Body: b}, nil
}

// verbsOf are the actions that make sense of a job, or of a part of one.
func verbsOf(status admin.JobStatus) (verbs []string) {
	schedule, err := status.Job.ParseSchedule()
	part := status.Shard != nil || status.InstanceID != ""
	if err == nil && !schedule.Always() && status.State != admin.StateInvalid {
		verbs = append(verbs, "trigger")
	}
	if len(words.InProgress(status)) > 0 {
		verbs = append(verbs, "stop-run")
	}
	switch {
	case part:
		return verbs
	case status.Paused != nil:
		verbs = append(verbs, "resume")
	case status.State != admin.StateInvalid:
		verbs = append(verbs, "pause")
	}
	return append(verbs, verbSubmit, "cancel")
}

// parted is the description of a job in two parts: as it was given, and standard values.
func parted(j job.Job) (given, standard []pair) {
	usual := described(job.Job{Name: j.Name, Schedule: j.Schedule, Handler: j.Handler}.WithDefaults())
	for _, p := range described(j) {
		if p.Label != "schedule" && p.Label != "handler" && slices.Contains(usual, p) {
			standard = append(standard, p)
		} else {
			given = append(given, p)
		}
	}
	return given, standard
}

const (
	// maxEntries is how many entries a page has: with a long name in each link, it stays below 150 KB.
	maxEntries = 80
	// wholeErrors is how much of errors it has, in bytes.
	wholeErrors = 16 << 10
)

// past shows the entries of the job.
func (p *pages) past(b *jobBody, all []runlog.Entry, l look) {
	b.More = max(0, len(all)-maxEntries)
	left := wholeErrors
	later := make(map[string]bool) // the ticks of which there is a later entry
	for _, e := range all[:min(len(all), maxEntries)] {
		row := p.entryRowOf(b.Job, e, l)
		if tick := e.Tick.UTC().Format(time.RFC3339); e.RunID != "" && e.OfTick() {
			if !later[e.Slot+tick] && e.State.Unsuccessful() && e.NextAttempt == "" && b.Actions != nil && b.Actions.May["trigger"] {
				row.Retry = &retry{"api/v1/jobs/" + url.PathEscape(e.Slot) + "/trigger", tick}
			}
			later[e.Slot+tick] = true
		}
		if b.Error == "" && row.State.Class != off && e.Error != "" {
			b.Error = e.Error
		}
		if left -= len(row.Error); left < 0 {
			row.Error = ""
		}
		b.Entries = append(b.Entries, row)
	}
	b.Chart = chartOf(all, l)
}

// ticks are the next ten, in the job's time zone and in the viewer's.
func (b *jobBody) ticks(of admin.JobStatus, l look) {
	const most = 10
	zone := of.Job.Zone()
	b.OneZone = zone.String() == l.zone.String()
	for _, tick := range api.TicksOf(of, l.now, most) {
		b.Ticks = append(b.Ticks, tickRow{look{l.now, zone}.stamp(tick.Due), l.stamp(tick.Due)})
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
