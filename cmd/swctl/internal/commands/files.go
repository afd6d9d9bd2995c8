package commands

import (
	"context"
	"fmt"

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
		Short: "check files with jobs, without a server",
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
	entries, problems := files.Read(paths, r.Stdin)
	err = r.put(api.New("Validation", api.ItemsOf(problems), struct {
		Jobs int `json:"jobs"`
	}{len(entries)}), func(render.Page) {
		for _, problem := range problems {
			fmt.Fprintln(&r.Out, problem)
		}
		fmt.Fprintf(&r.Out, "%s without a problem\n", render.Count(len(entries)))
	})
	if err == nil && len(problems) > 0 {
		err = cmdline.Usage("validate: there are problems: %d", len(problems))
	}
	return err
}

func exportCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "export", Args: "[NAME...]",
		Short: "write jobs as files for swctl apply",
		Long: `Prints the named jobs, or all of them, as YAML, or with -o json as a list. Fields that have their
default are left out, and so is whether a job is paused.`,
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
	labels, err := c.Pairs(fields.FlagLabel)
	if err != nil {
		return err
	}
	if err := wholeJobs(c.Call, c.Args...); err != nil {
		return err
	}
	var jobs []admin.JobStatus
	err = c.reading(ctx, func(ctx context.Context, client group.Client) (err error) {
		if len(c.Args) > 0 {
			jobs, err = named(ctx, c.Call, client, "exported", false)
		} else {
			jobs, err = client.List(ctx)
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
	wrote, err := writeJobs(c.Call, specs, ".yaml")
	switch {
	case err != nil:
		return err
	case len(wrote) > 0:
		c.Notef("wrote %s to %s", render.Count(len(specs)), c.Flags.String(flagTo))
		return nil
	case c.JSON:
		return c.PutJSON(api.List("JobSpecList", specs))
	}
	text, err := files.YAML(specs...)
	c.Out.Write(text)
	return err
}
