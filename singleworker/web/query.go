package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
)

// farthest is how far from now a time of a request may be: beyond, it stands for that.
const farthest = 100 * 365 * 24 * time.Hour

// timeOf is a time in the query of a request, or zero if the field is missing.
func timeOf(r *http.Request, field string) (time.Time, error) {
	text := r.FormValue(field)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, &invalid.FieldError{Field: field, Value: text, Err: errors.New("is no time as in RFC 3339")}
	}
	switch now := time.Now(); {
	case at.Before(now.Add(-farthest)):
		return now.Add(-farthest), nil
	case at.After(now.Add(farthest)):
		return now.Add(farthest), nil
	}
	return at, nil
}

// countOf is the number n in the query of a request, from 1 to most.
func countOf(r *http.Request, standard string, most int) (int, error) {
	text := cmp.Or(r.FormValue("n"), standard)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, &invalid.FieldError{Field: "n", Value: text, Err: fmt.Errorf("is no number from 1 to %d", most)}
	}
	return n, nil
}

// sinceOf is the cursor that a viewer has, or 0 if it has none.
func sinceOf(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.FormValue("since")
	}
	if text == "" {
		return 0, nil
	}
	since, err := strconv.ParseInt(text, 10, 64)
	if err != nil || since < 1 {
		return 0, &invalid.FieldError{Field: "Last-Event-ID", Value: text, Err: errors.New("is not the cursor of an event")}
	}
	return since, nil
}
