package main

import (
	"strings"
	"testing"
	"time"
)

// term returns the runs of one worker between two times.
func term(worker string, token int64, from, to time.Duration) []run {
	var runs []run
	for at := from; at < to; at += period {
		runs = append(runs, run{worker, token, time.Unix(0, 0).Add(at)})
	}
	return runs
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	const s = time.Second
	story := func(terms ...[]run) (all []run) {
		for _, runs := range terms {
			all = append(all, runs...)
		}
		return all
	}
	one, two, three := term("one", 5, 0, 2*s), term("two", 6, 4*s, 6*s), term("three", 7, 6*s, 7*s)
	for what, row := range map[string]struct {
		runs []run
		want string // part of the error
	}{
		"as it should be":        {story(one, two, three), ""},
		"a token that goes back": {story(one, two, term("three", 4, 6*s, 7*s)), "token 4 after two had with 6"},
		"two with one token":     {story(one, term("two", 5, 4*s, 6*s), three), "with one token"},
		"two at a time":          {story(one, term("two", 6, 1500*time.Millisecond, 3*s), three), "one ran with token 5 after two had with 6"},
		"nobody takes over":      {story(one, two), "2 terms"},
		"late after the kill":    {story(one, term("two", 6, 7*s, 8*s), term("three", 7, 8*s, 9*s)), "after the kill"},
		"late after the stop":    {story(one, two, term("three", 7, 8*s, 9*s)), "after the stop"},
		"nothing to speak of":    {story(one[:1], two[:1], three[:1]), "too few runs"},
		"nothing":                {nil, "0 terms"},
		"a former one runs on":   {story(one, two, term("one", 5, 5*s, 6*s), three), "token 5"},
		"a fourth comes though":  {story(one, two, three, term("one", 9, 8*s, 9*s)), "4 terms"},
	} {
		v, err := judge(row.runs, time.Unix(2, 0), time.Unix(6, 0))
		if row.want == "" && (err != nil || v.terms != 3 || v.afterKill != 2*s || v.afterStop != 0) {
			t.Errorf("%s: %+v, %v; want three terms, 2s, 0s", what, v, err)
		}
		if row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
	}
}
