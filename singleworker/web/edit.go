package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The fields of the form that edits a job.
const (
	fieldSpec = "spec" // the job as JSON
	fieldSeen = "seen" // the entity tag of the job that was edited
)

// editBody is a job as text, in a form.
type editBody struct {
	Name, Link, Text, Seen string
	Lines                  int
	Error                  string // why it was refused
	Actions                *offered
}

func editBodyOf(name, text, seen string, may *offered) editBody {
	return editBody{Name: name, Link: jobLink(name), Text: text, Seen: seen, Lines: strings.Count(text, "\n") + 3, Actions: may}
}

// edit is the form with a job as it is, without its defaults.
func (p *pages) edit(r *http.Request, _ *snapshot) (view, error) {
	d, err := p.group.job(r.Context(), r.FormValue("name"))
	if err != nil {
		return view{}, err
	}
	name := d.Job.Name
	text, err := json.MarshalIndent(d.Job.Job.Normal(), "", "  ")
	if err != nil {
		return view{}, err
	}
	return view{
		Template: "edit", Title: "Edit " + name, look: p.look(r),
		Body: editBodyOf(name, string(text), tagOf(d.Job), p.rights.offers(r, "jobs", name, verbSubmit)),
	}, nil
}

// refused is the form once more, with the text that was sent, and why it was refused.
func (p *pages) refused(r *http.Request, o *order, err error) view {
	v := p.failure(r, err)
	body := editBodyOf(o.Of, o.form.Get(fieldSpec), o.form.Get(fieldSeen), p.rights.offers(r, "jobs", o.Of, verbSubmit))
	body.Error = err.Error()
	return view{Template: "edit", Title: "Edit " + o.Of, look: p.look(r), Body: body, status: v.status}
}

// edit replaces a job by the text of the form, if it is still the one that was edited.
func (a *actions) edit(ctx context.Context, o *order) (api.Document, error) {
	seen, err := seenIn(o.form.Get(fieldSeen))
	if err != nil {
		return api.Document{}, err
	}
	var j job.Job
	if err := json.Unmarshal([]byte(o.form.Get(fieldSpec)), &j); err != nil {
		return api.Document{}, refusedText(err)
	}
	return a.submit(ctx, o, j, admin.SubmitOptions{Replace: true, Seen: seen})
}
