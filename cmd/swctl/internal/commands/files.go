package commands

import (
	"context"
	"fmt"
	"slices"

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
		Short: "check files with jobs and calendars, without a server",
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
	}{len(found.Jobs), len(found.Calendars)}), func(render.Page) {
		for _, problem := range problems {
			fmt.Fprintln(&r.Out, problem)
		}
		fmt.Fprintf(&r.Out, "%s without a problem\n", counted(len(found.Jobs), len(found.Calendars)))
	})
	if err == nil && len(problems) > 0 {
		err = cmdline.Usage("validate: there are problems: %d", len(problems))
	}
	return err
}

// counted says how many jobs there are, and how many calendars if there are any.
func counted(jobs, calendars int) string {
	switch text := render.Count(jobs); calendars {
	case 0:
		return text
	case 1:
		return text + " and 1 calendar"
	default:
		return fmt.Sprintf("%s and %d calendars", text, calendars)
	}
}

func exportCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "export", Args: "[NAME...]",
		Short: "write jobs as files for swctl apply",
		Long: `Prints the named jobs, or all of them, as YAML, or with -o json as a list. Fields that have their
default are left out, and so is whether a job is paused. The calendars that the jobs name come
first, in a directory in their own, calendars/.`,
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
	var known []admin.Calendar
	err = c.reading(ctx, func(ctx context.Context, client group.Client) (err error) {
		if len(c.Args) > 0 {
			jobs, err = named(ctx, c.Call, client, "exported", false)
		} else {
			jobs, err = client.List(ctx)
		}
		if err == nil && slices.ContainsFunc(jobs, func(of admin.JobStatus) bool { return len(of.Job.Calendars) > 0 }) {
			known, err = client.Calendars(ctx)
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
	calendars := calendarsOf(c, known, specs)
	wrote, err := writeJobs(c.Call, calendars, specs, ".yaml")
	switch {
	case err != nil:
		return err
	case len(wrote) > 0:
		c.Notef("wrote %s to %s", counted(len(specs), len(calendars)), c.Flags.String(flagTo))
		return nil
	case c.JSON:
		return c.PutJSON(api.New("JobSpecList", api.ItemsOf(specs), struct {
			Calendars []files.Calendar `json:"calendars,omitempty"`
		}{calendars}))
	}
	text, err := files.YAML(files.Documents(calendars, specs)...)
	c.Out.Write(text)
	return err
}

// calendarsOf are the calendars that jobs name, of all that the group has.
func calendarsOf(c *call, known []admin.Calendar, jobs []job.Job) (named []files.Calendar) {
	for _, of := range known {
		switch {
		case !slices.ContainsFunc(jobs, func(j job.Job) bool { return slices.Contains(j.CalendarNames(), of.Name) }):
		case of.Error != "":
			c.Notef("calendar %s is left out: %s", of.Name, of.Error)
		default:
			named = append(named, files.CalendarOf(of))
		}
	}
	return named
}
