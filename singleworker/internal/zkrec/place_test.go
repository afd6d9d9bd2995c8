package zkrec_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

func TestWhereAJobMayRun(t *testing.T) {
	t.Parallel()
	a := zkrec.Instance{Host: "db8", Labels: map[string]string{"zone": "a", "disk": "ssd"}, Specs: zkrec.SpecSchema}
	old := zkrec.Instance{Host: "db8", Labels: a.Labels}
	for what, test := range map[string]struct {
		job      job.Job
		at       zkrec.Instance
		excluded zkrec.Exclusion
		want     error // nil: it may
	}{
		"a job that does not say where":        {at: a},
		"an older version":                     {at: old},
		"a label":                              {job: job.Job{Require: map[string]string{"zone": "a"}}, at: a},
		"all labels":                           {job: job.Job{Require: map[string]string{"zone": "a", "disk": "ssd"}}, at: a},
		"another value":                        {job: job.Job{Require: map[string]string{"zone": "b"}}, at: a, want: zkrec.ErrLabels},
		"one of two":                           {job: job.Job{Require: map[string]string{"zone": "a", "gpu": "1"}}, at: a, want: zkrec.ErrLabels},
		"an empty value is not a lacking one":  {job: job.Job{Require: map[string]string{"gpu": ""}}, at: a, want: zkrec.ErrLabels},
		"labels, older version":                {job: job.Job{Require: map[string]string{"zone": "a"}}, at: old, want: zkrec.ErrOldReader},
		"listed":                               {job: job.Job{Instances: []string{"app-2", "app-1"}}, at: a},
		"listed, older version":                {job: job.Job{Instances: []string{"app-1"}}, at: old, want: zkrec.ErrOldReader},
		"not listed":                           {job: job.Job{Instances: []string{"app-2"}}, at: a, want: zkrec.ErrUnlisted},
		"listed, but without the label":        {job: job.Job{Instances: []string{"app-1"}, Require: map[string]string{"zone": "b"}}, at: a, want: zkrec.ErrLabels},
		"excluded":                             {at: a, excluded: zkrec.Exclusion{SID: "app-1", Job: "report"}, want: new(zkrec.ExcludedError)},
		"its host is":                          {at: a, excluded: zkrec.Exclusion{Host: "db8", Job: "report"}, want: new(zkrec.ExcludedError)},
		"another instance is":                  {at: a, excluded: zkrec.Exclusion{SID: "app-2", Job: "report"}},
		"another host is":                      {at: a, excluded: zkrec.Exclusion{Host: "db9", Job: "report"}},
		"another job is":                       {at: a, excluded: zkrec.Exclusion{SID: "app-1", Job: "backup"}},
		"a host as a whole closes its members": {at: a, excluded: zkrec.Exclusion{Host: "db8"}},
		"a host that is not known":             {at: zkrec.Instance{}, excluded: zkrec.Exclusion{SID: "app-2", Job: "report"}},
	} {
		test.job.Name = "report"
		err := zkrec.MayRun(&test.job, "app-1", &test.at, zkrec.Exclusions{test.excluded.Job: {test.excluded}})
		got, want := new(zkrec.ExcludedError), new(zkrec.ExcludedError)
		if errors.As(test.want, &want) != errors.As(err, &got) || test.want == nil && err != nil ||
			test.want != nil && got.Exclusion == (zkrec.Exclusion{}) && !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", what, err, test.want)
		}
	}
}

// An older version must not run a job that says where it may run. Others it reads as ever.
func TestSchemaOfASpecIsTheOldestThatSuffices(t *testing.T) {
	t.Parallel()
	most := job.Job{Schedule: "@daily", Everywhere: true, BeforeTick: "prepare", Instances: []string{"app-1"}, Calendars: []string{"a"}, After: []string{"b"}}
	if got := zkrec.SchemaOf(&most); got != zkrec.SpecSchema {
		t.Errorf("the highest schema is %d, want %d", got, zkrec.SpecSchema)
	}
	was := zkrec.Spec{Job: job.Job{Schedule: "@daily"}, Layout: &zkrec.Layout{Sharding: zkrec.Sharding{Shards: 2, BeforeTick: "prepare"}}}
	if got := was.Schema(); got != 4 {
		t.Errorf("of a job whose shards still wait for BeforeTick it is %d, want 4", got)
	}
	for want, j := range map[string]job.Job{
		`{"schema":1,`:   {Schedule: "@daily", Handler: "stats"},
		`{"schema":2,`:   {Schedule: "@daily", Require: map[string]string{"zone": "a"}},
		`{"schema":2,"s`: {Schedule: "@daily", Instances: []string{"app-1"}},
		`{"schema":5,"s`: {Schedule: "@daily", NotBefore: time.Unix(1798131600, 0)},
		`{"schema":5,`:   {Schedule: "@daily", MaxRuns: 1},
		`{"schema":5`:    {Schedule: "@daily", Interrupted: job.InterruptedAskOrSkip},
	} {
		if data := (zkrec.Spec{Job: j}).Encode(); !bytes.HasPrefix(data, []byte(want)) {
			t.Errorf("%s, want %s", data, want)
		}
	}
}

// An order that belongs under another name binds nobody.
func TestExclusionsThatAreNone(t *testing.T) {
	t.Parallel()
	x := zkrec.Exclusion{SID: "app-1", Job: "report"}
	for _, data := range []string{
		"", "{", `{}`, `{"schema":1,"instance":"app-2","job":"report"}`, `{"schema":2,"instance":"app-1","job":"report"}`,
		`{"schema":1,"instance":"app-1","host":"db8","job":"report"}`,
	} {
		if got, err := zkrec.ParseExclusion(x.Name(), []byte(data)); err == nil || got != (zkrec.Exclusion{}) {
			t.Errorf("%q: %+v, %v", data, got, err)
		}
	}
	all := zkrec.Exclusion{SID: "app-1"} // that is what _disabled is for
	if got, err := zkrec.ParseExclusion(all.Name(), all.Encode()); err == nil {
		t.Errorf("%+v, want an error", got)
	}
	if got, err := zkrec.ParseExclusion(x.Name(), x.Encode()); err != nil || got.SID != "app-1" || got.Job != "report" {
		t.Errorf("%+v, %v", got, err)
	}
}
