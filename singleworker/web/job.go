package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

func labels(all map[string]string) string { return reason.Labels(all) }

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

// clipped is how much of an error a table shows before it is opened.
const clipped = 200

// slotOf names the shard, or the instance, of an entry of a job that has several.
func slotOf(of admin.JobStatus, e history.Entry) string {
	if e.Shard == nil {
		return ""
	}
	if i := slices.IndexFunc(of.Slots, func(s admin.JobStatus) bool { return s.Shard != nil && s.Shard.Index == *e.Shard }); i >= 0 {
		return of.Slots[i].Name
	}
	return ""
}

// endOf is when a run ended, or now if it is in progress; zero if that is not known.
func endOf(r history.Run, now time.Time) time.Time {
	if r.Ended.IsZero() && r.State == history.StateRunning {
		return now
	}
	return r.Ended
}

// tickRow is a tick to come.
type tickRow struct{ Local, UTC stamp }

// jobBody is the content of the page of a job.
type jobBody struct {
	jobRow

	Job        admin.JobStatus
	Pairs      []pair
	OwnerSince stamp
	Words      string // what the schedule means
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

func (h *handler) jobPage(r *http.Request) (view, error) {
	ctx, name := r.Context(), r.FormValue("name")
	s, err := h.snapshot(ctx)
	if err != nil {
		return view{}, err
	}
	d, err := h.job(ctx, name)
	if err != nil {
		return view{}, err
	}
	now := h.now()
	b := jobBody{jobRow: rowOf(d.status, now), Job: d.status, Words: words.Schedule(d.status.Job), Pairs: described(d.status.Job), Actions: h.offers(r, "jobs", d.status.Name, "trigger", "pause", "resume", "cancel")}
	past, err := h.past(ctx, name)
	if err != nil && !errors.Is(err, admin.ErrUnreadable) {
		return view{}, err
	}
	log, err := h.jobLog(ctx, name)
	if err != nil {
		return view{}, err
	}
	all := b.past(past.Entries, log, now)
	if h.opts.History != nil {
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
	return view{Template: "job", Title: d.status.Name, Now: now, Summary: s.summary(now), Body: b}, nil
}

const (
	// maxEntries is how many entries a page has: with a long name in each link, it stays below 150 KB.
	maxEntries = 80
	// wholeErrors is how much of errors it has, in bytes.
	wholeErrors = 16 << 10
)

// past shows what ZooKeeper and the run log have of the job, and returns all of it.
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
