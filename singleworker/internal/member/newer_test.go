package member_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// In the middle of a deploy, the newer program's declaration wins, even if the older one starts
// last. Programs of the group that have nothing to do with the job do not count.
func TestDeclarationOfTheNewerVersionWins(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		declared  string // version of the record; "-": there is no job
		edited    bool   // an operator has changed the job since
		live      string // version of another live instance
		handlers  string // of that
		version   string
		wantOlder bool // the declaration is ignored
	}{
		"of a newer version":                        {declared: "2.0", version: "1.9", wantOlder: true},
		"of a newer version, changed by somebody":   {declared: "2.0", edited: true, version: "1.9", wantOlder: true},
		"of an older version":                       {declared: "2.0", version: "2.1"},
		"of an older version, changed by somebody":  {declared: "2.0", edited: true, version: "2.1"},
		"of the same version":                       {declared: "2.0", version: "v2"},
		"of an unknown version":                     {version: "2.0"},
		"by a program without a version":            {declared: "2.0"},
		"a newer version with the handler lives":    {declared: "1.0", live: "3.0", handlers: "job", version: "2.0", wantOlder: true},
		"a newer version without the handler lives": {declared: "1.0", live: "3.0", handlers: "other", version: "2.0"},
		"an older version with the handler lives":   {declared: "1.0", live: "1.9", handlers: "job", version: "2.0"},
		"no job, and a newer version lives":         {declared: "-", live: "3.0", handlers: "job", version: "2.0"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				before := zkrec.Spec{Job: jobs.Job{Name: "job", Schedule: "@daily"}}
				before.Declaration = zkrec.Declaration{Declared: before.Fingerprint(), DeclaredBy: "x (2.0)", DeclaredVersion: test.declared}
				if test.edited {
					before.Job.Schedule = "@weekly"
				}
				if test.declared != "-" {
					g.Create(g.Tree.Job("job"), string(before.Encode()))
				}
				if test.live != "" {
					_, hash := publish(g, test.handlers)
					g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance("other"), zkrec.Instance{
						Incarnation: "other-1", Program: test.live, Handlers: hash, State: zkrec.InstanceActive,
					}.Encode()))
				}
				mine := member.Declaration{Job: jobs.Job{Name: "job", Schedule: "@hourly"}}
				cfg := member.Config{ID: "a", Instance: zkrec.Instance{Program: test.version}, Declarations: []member.Declaration{mine}}
				a, err := enter(g, cfg, func(ctx context.Context, e *member.Entry) error { return errors.Join(e.Prepare(ctx), e.Declare(ctx)) })
				if err != nil {
					g.T.Error(err)
				}
				want := "@hourly"
				if test.wantOlder {
					want = before.Job.Schedule
				}
				spec := g.Spec()
				if spec.Job.Schedule != want || !test.wantOlder && spec.DeclaredVersion != test.version {
					g.T.Errorf("schedule %q, declared by version %q; want %q", spec.Job.Schedule, spec.DeclaredVersion, want)
				}
				if text := a.Log.String(); strings.Contains(text, "declaration ignored") != test.wantOlder {
					g.T.Errorf("log %q; ignored: %v", text, test.wantOlder)
				}
				_, err = enter(g, cfg, func(ctx context.Context, e *member.Entry) error { return e.DeclareOne(ctx, mine) })
				if errors.Is(err, member.ErrNewer) != test.wantOlder || err != nil && !test.wantOlder {
					g.T.Errorf("on a running instance: %v, want it to be refused: %v", err, test.wantOlder)
				}
			})
		})
	}
}
