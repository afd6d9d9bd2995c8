package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/files"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

const flagSchema = "schema"

func validateCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "validate", Args: "-f FILE|DIR|- | --schema",
		Short: "check files with jobs, calendars and limits, without a server",
		Long: `Prints each problem with its file, line and column, and exits with 2 if there is one. --schema
prints the JSON Schema of a job in a file, for editors.`,
		Examples: `swctl validate -f jobs/
swctl validate --schema > job.schema.json`,
		Flags: []cmdline.Flag{filesFlag(), {Name: flagSchema, Usage: "print the JSON Schema of a job in a file"}},
		Run:   alone(validate),
	}
}

func validate(_ context.Context, r *reply) error {
	if r.Flags.Bool(flagSchema) {
		return r.PutJSON(fields.Schema())
	}
	paths, err := filePaths(r.Call)
	if err != nil {
		return err
	}
	found, problems := files.Read(paths, r.Stdin)
	err = r.put(api.New("Validation", api.ItemsOf(problems), struct {
		Jobs      int `json:"jobs"`
		Calendars int `json:"calendars"`
		Limits    int `json:"limits"`
	}{len(found.Jobs), len(found.Calendars), len(found.Limits)}), func(render.Page) {
		for _, problem := range problems {
			fmt.Fprintln(&r.Out, problem)
		}
		fmt.Fprintf(&r.Out, "%s without a problem\n", counted(len(found.Jobs), len(found.Calendars), len(found.Limits)))
	})
	if err == nil && len(problems) > 0 {
		err = cmdline.Usage("validate: there are problems: %d", len(problems))
	}
	return err
}

// counted says how many jobs there are, and how many calendars and limits if there are any.
func counted(jobs, calendars, limits int) string {
	texts := []string{render.Count(jobs)}
	for _, of := range []struct {
		n    int
		word string
	}{{calendars, "calendar"}, {limits, "limit"}} {
		switch of.n {
		case 0:
		case 1:
			texts = append(texts, "1 "+of.word)
		default:
			texts = append(texts, fmt.Sprintf("%d %ss", of.n, of.word))
		}
	}
	return strings.Join(texts, " and ")
}

func exportCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "export", Args: "[NAME...]",
		Short: "write jobs as files for swctl apply",
		Long: `Prints the named jobs, or all of them, as YAML, or with -o json as a list. Fields that have their
default are left out, and so is whether a job is paused. The calendars and the limits that the
jobs name come first, in directories of their own, calendars/ and limits/.`,
		Examples: `swctl export > jobs.yaml
swctl export -l team=billing --to jobs/
swctl export nightly -o json`,
		Flags: []cmdline.Flag{
			{Name: fields.FlagLabel, Alias: "l", Usage: "`KEY=VALUE` only jobs with this label; may be repeated, and then all must match", Repeated: true},
			{Name: flagTo, Usage: "`PATH` a new file for the jobs, or a directory for a file for each job (default stdout)"},
		},
		Run: e.run(export),
	}
}

func export(ctx context.Context, c *call) error {
	labels, err := c.Pairs(fields.FlagLabel, "")
	if err != nil {
		return err
	}
	if err := wholeJobs(c.Call, c.Args...); err != nil {
		return err
	}
	var jobs []admin.JobStatus
	var calendars []admin.Calendar
	var limits []admin.Limit
	err = c.reading(ctx, func(ctx context.Context, client group.Client) (err error) {
		if len(c.Args) > 0 {
			jobs, err = named(ctx, c.Call, client, "exported", false)
		} else {
			jobs, err = client.List(ctx)
		}
		if err == nil && slices.ContainsFunc(jobs, func(of admin.JobStatus) bool { return len(of.Job.Calendars) > 0 }) {
			calendars, err = client.Calendars(ctx)
		}
		if err == nil && slices.ContainsFunc(jobs, func(of admin.JobStatus) bool { return len(of.Job.Limits) > 0 }) {
			limits, err = client.Limits(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	chosen, specs := choice{labels: labels}, []job.Job{}
	for _, of := range jobs {
		switch {
		case !chosen.has(of):
		case of.Job.Schedule == "":
			c.Notef("%s is left out: %s", of.Name, of.Reason)
		default:
			specs = append(specs, of.Job.Normal())
		}
	}
	of := documentsOf(c, specs, calendars, limits)
	wrote, err := writeJobs(c.Call, of, ".yaml")
	switch {
	case err != nil:
		return err
	case len(wrote) > 0:
		c.Notef("wrote %s to %s", counted(len(specs), len(of.Calendars), len(of.Limits)), c.Flags.String(flagTo))
		return nil
	case c.JSON:
		return c.PutJSON(api.New("JobSpecList", api.ItemsOf(specs), struct {
			Calendars []files.Calendar `json:"calendars,omitempty"`
			Limits    []files.Limit    `json:"limits,omitempty"`
		}{of.Calendars, of.Limits}))
	}
	text, err := files.YAML(of.All()...)
	c.Out.Write(text)
	return err
}

// documentsOf are jobs, with the calendars and the limits that they name, of all that the group
// has.
func documentsOf(c *call, jobs []job.Job, calendars []admin.Calendar, limits []admin.Limit) files.Documents {
	of := files.Documents{Jobs: jobs}
	for _, named := range calendars {
		if isNamed(c, "calendar", named.Name, named.Error, jobs, job.Job.CalendarNames) {
			of.Calendars = append(of.Calendars, files.CalendarOf(named))
		}
	}
	for _, named := range limits {
		if isNamed(c, "limit", named.Name, named.Error, jobs, job.Job.LimitNames) {
			of.Limits = append(of.Limits, files.LimitOf(named))
		}
	}
	return of
}

// isNamed reports whether one of the jobs names a calendar, or a limit, that can be read.
func isNamed(c *call, word, name, unreadable string, jobs []job.Job, names func(job.Job) []string) bool {
	switch {
	case !slices.ContainsFunc(jobs, func(j job.Job) bool { return slices.Contains(names(j), name) }):
		return false
	case unreadable != "":
		c.Notef("%s %s is left out: %s", word, name, unreadable)
		return false
	}
	return true
}
