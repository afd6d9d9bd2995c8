package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// seenIn is the job that an entity tag stands for.
func seenIn(tag string) (*admin.Seen, error) {
	var seen admin.Seen
	if n, err := fmt.Sscanf(tag, `"%x-%d"`, &seen.ID, &seen.Version); n != 2 || tagOf(admin.JobStatus{ID: seen.ID, Version: seen.Version}) != tag {
		return nil, &invalid.FieldError{Field: "If-Match", Value: tag, Err: errors.Join(errors.New("is no ETag of a job"), err)}
	}
	return &seen, nil
}

// put creates or replaces a job, as the request's condition says. It must have one, so that two who
// edit a job at once cannot undo each other's change.
func (a *actions) put(ctx context.Context, o *order) (api.Document, error) {
	j, err := jobIn(o.body)
	if err != nil {
		return api.Document{}, err
	}
	opts := admin.SubmitOptions{DryRun: o.form.Get("dry_run") == "true"}
	match, absent := o.condition.Get("If-Match"), o.condition.Get("If-None-Match")
	switch {
	case match == "*" && absent == "":
		was, err := a.client.Get(ctx, o.Of)
		if err != nil {
			return api.Document{}, changed(err)
		}
		seen := was.Seen()
		opts.Replace, opts.Seen = true, &seen
	case match != "" && absent == "":
		if opts.Seen, err = seenIn(match); err != nil {
			return api.Document{}, err
		}
		opts.Replace = true
	case match != "" || absent != "*":
		return api.Document{}, errNoCondition
	}
	return a.submit(ctx, o, j, opts)
}

// submit creates or replaces a job, and returns how it is then.
func (a *actions) submit(ctx context.Context, o *order, j job.Job, opts admin.SubmitOptions) (api.Document, error) {
	if j.Name == "" {
		j.Name = o.Of
	}
	if j.Name != o.Of {
		return api.Document{}, &invalid.FieldError{Field: "name", Value: j.Name, Err: errors.New("is not the name of the job that is to be changed")}
	}
	done, err := a.client.Submit(ctx, j, opts)
	if err != nil {
		return api.Document{}, changed(err)
	}
	if done.Outcome == admin.OutcomeCreated && !opts.DryRun {
		o.status = http.StatusCreated
	}
	status, err := a.client.Get(ctx, j.Name)
	if errors.Is(err, admin.ErrNotFound) { // a dry run, or somebody has canceled it since
		err = nil
	}
	change := api.ChangeOf(done, opts.DryRun, status)
	if err == nil && !opts.DryRun && status.ID != 0 {
		o.tag = tagOf(change.Job)
	}
	return api.New("SubmitResult", change), err
}

// changed tells apart from other conflicts that the condition does not hold.
func changed(err error) error {
	if errors.Is(err, admin.ErrExists) || errors.Is(err, admin.ErrConflict) || errors.Is(err, admin.ErrNotFound) {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

// jobIn is the job in a Job document. The fields beside its spec are as GET tells them, and are not
// read.
func jobIn(body []byte) (j job.Job, err error) {
	var document struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Spec       *job.Job `json:"spec"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return j, refusedText(err)
	}
	if document.APIVersion != api.Version || document.Kind != "Job" || document.Spec == nil {
		return j, &invalid.FieldError{Field: "body", Err: fmt.Errorf(`is no document with "apiVersion": %q, "kind": "Job" and a "spec"`, api.Version)}
	}
	return *document.Spec, nil
}

// refusedText says of text that is no JSON that it is invalid, as of a field that is.
func refusedText(err error) error {
	if errors.As(err, new(*invalid.FieldError)) {
		return err
	}
	return &invalid.FieldError{Field: "body", Err: err}
}
