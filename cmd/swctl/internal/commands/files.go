package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/files"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

const flagSchema = "schema"

func filesFlag() cmdline.Flag {
	return cmdline.Flag{Name: flagFile, Alias: "f", Usage: "`PATH` of a file with jobs, or of a directory with files, or - for stdin; may be repeated", Repeated: true}
}

func (a *app) validateCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "validate", Args: "-f FILE|DIR|- | --schema",
		Short: "check files with jobs, without a server",
		Long: `Prints each problem with its file, line and column, and exits with 2 if there is one. --schema
prints the JSON Schema of a job in a file, for editors.`,
		Examples: `swctl validate -f jobs/
swctl validate --schema > job.schema.json`,
		Flags: []cmdline.Flag{filesFlag(), {Name: flagSchema, Usage: "print the JSON Schema of a job in a file"}},
		Run:   a.run(validate),
	}
}

func validate(_ context.Context, c *call) error {
	if c.Flags.Bool(flagSchema) {
		return c.PutJSON(fields.Schema())
	}
	paths, err := c.paths()
	if err != nil {
		return err
	}
	entries, problems := files.Read(paths, c.Stdin)
	err = c.put(api.New("Validation", api.ItemsOf(problems), struct {
		Jobs int `json:"jobs"`
	}{len(entries)}), func(render.Page) {
		for _, problem := range problems {
			fmt.Fprintln(&c.Out, problem)
		}
		fmt.Fprintf(&c.Out, "%s without a problem\n", render.Count(len(entries)))
	})
	if err == nil && len(problems) > 0 {
		err = cmdline.Usage("validate: there are problems: %d", len(problems))
	}
	return err
}

// paths lists the files that the line names.
func (c *call) paths() ([]string, error) {
	paths := c.Flags.StringSlice(flagFile)
	switch {
	case len(c.Args) > 0:
		return nil, cmdline.Usage("%s takes no arguments", c.Command).Try("swctl %s -f %s", c.Command, plain.Quoted(c.Args[0]))
	case len(paths) == 0 || slices.Contains(paths, ""):
		return nil, cmdline.Usage("%s needs a file", c.Command).Try("swctl %s -f FILE, a directory, or - for stdin", c.Command)
	}
	return paths, nil
}

// readFiles reads the jobs of the files that the line names, all of which must be right.
func (c *call) readFiles() ([]files.Entry, error) {
	paths, err := c.paths()
	if err != nil {
		return nil, err
	}
	entries, problems := files.Read(paths, c.Stdin)
	if len(problems) == 0 {
		return entries, nil
	}
	for _, problem := range problems[1:] {
		c.say(problem.String())
	}
	return nil, cmdline.Usage("%s: %s; nothing was changed", c.Command, problems[0]).
		Try("swctl validate -f FILE checks files without a server")
}

func (a *app) exportCommand() *cmdline.Command {
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
		Run: a.run(export),
	}
}

func export(ctx context.Context, c *call) error {
	labels, err := c.Pairs(fields.FlagLabel)
	if err != nil {
		return err
	}
	if err := c.wholeJobs(c.Args...); err != nil {
		return err
	}
	var jobs []admin.JobStatus
	err = c.reading(ctx, func(ctx context.Context, client group.Client) (err error) {
		if len(c.Args) > 0 {
			jobs, err = c.named(ctx, client, "exported", false)
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
	wrote, err := c.writeJobs(specs, ".yaml")
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

// writeJobs writes jobs where --to says, and overwrites nothing. In a directory the files have that
// ending.
func (c *call) writeJobs(jobs []job.Job, ending string) (wrote []string, err error) {
	to := c.Flags.String(flagTo)
	if to == "" {
		return nil, nil
	}
	info, err := os.Stat(to)
	if !strings.HasSuffix(to, "/") && (err != nil || !info.IsDir()) {
		return []string{to}, writeNew(to, jobs...)
	}
	if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // others may read jobs
		return nil, cmdline.Usage("--%s %s: %w", flagTo, to, err)
	}
	for _, j := range jobs {
		path := filepath.Join(to, j.Name+ending) // names have no /
		if err := writeNew(path, j); err != nil {
			return wrote, err
		}
		wrote = append(wrote, path)
	}
	return wrote, nil
}

// writeNew writes jobs to a new file: as YAML if its name says so, and otherwise as JSON.
func writeNew(path string, jobs ...job.Job) error {
	var text bytes.Buffer
	var err error
	switch filepath.Ext(path) {
	case ".yaml", ".yml":
		var yaml []byte
		yaml, err = files.YAML(jobs...)
		text.Write(yaml)
	default:
		err = plain.JSON(&text, "  ", jobs)
	}
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // others may read jobs
	if err != nil {
		return cmdline.Usage("--%s: %w", flagTo, err).Try("a path where nothing is: no file is overwritten")
	}
	_, err = file.Write(text.Bytes())
	return errors.Join(err, file.Close())
}
