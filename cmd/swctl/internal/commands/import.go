package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/files"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/imports"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	flagSystem    = "system"
	flagNamespace = "namespace"

	formatCrontab = "crontab"
	formatQuartz  = "quartz"
	formatElastic = "elasticjob"
)

func importCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "import", Args: "crontab FILE | quartz FILE | elasticjob",
		Short: "make job files of another scheduler's jobs",
		Long: `Prints the jobs as JSON, or writes them to a file or a directory, and lists on stderr what
does not translate: the job, the field, the reason, and what to do. Nothing is submitted:
read the jobs, then swctl apply -f. With exit code 0 everything was translated; with 1
something was not, and the jobs that were made are there nevertheless. FILE - is stdin.

Lines of a crontab become jobs of the handler "command", which is that of jobs.Command. Triggers
of Quartz's XML (job_scheduling_data_2_0) become jobs of a handler with the name of their class. With elasticjob the configurations are
read from the ZooKeeper of --zk, below the namespace of the registry center: YAML of 3.x, JSON
of 2.x.`,
		Examples: `swctl import crontab /var/spool/cron/crontabs/www --tz Europe/Berlin --to jobs.json
swctl import crontab /etc/crontab --system --tz Europe/Berlin --to jobs/
swctl import quartz quartz_jobs.xml --tz Europe/Berlin --to jobs.json
swctl import elasticjob --namespace jobs-prod --zk zk1:2181 --tz Asia/Shanghai --to jobs/
crontab -l | swctl import crontab - --tz UTC -o json | jq .remarks`,
		Flags: []cmdline.Flag{
			{Name: fields.FlagTZ, Usage: "`ZONE` time zone of schedules that name no zone: that of the old scheduler's machine"},
			{Name: flagTo, Usage: "`PATH` a new file for the list of jobs, or a directory for a file for each job (default stdout)"},
			{Name: flagSystem, Usage: "lines of the crontab name a user, as in /etc/crontab and /etc/cron.d"},
			{Name: flagNamespace, Usage: "`NAME` namespace of ElasticJob's registry center, the node below which its jobs are"},
		},
		Run: e.run(importJobs),
	}
}

func importJobs(ctx context.Context, c *call) error {
	r, err := imported(ctx, c)
	if err != nil {
		return err
	}
	wrote, err := writeJobs(c.Call, files.Documents{Jobs: r.Jobs}, ".json")
	if err != nil {
		return err
	}
	document := api.New("Import", struct {
		Jobs    []job.Job        `json:"jobs"`
		Remarks []imports.Remark `json:"remarks"`
		Files   []string         `json:"files,omitempty"`
	}{append([]job.Job{}, r.Jobs...), append([]imports.Remark{}, r.Remarks...), wrote})
	switch {
	case c.JSON:
		err = c.PutJSON(document)
	case len(wrote) == 0:
		err = plain.JSON(&c.Out, "  ", append([]job.Job{}, r.Jobs...))
	default:
		fmt.Fprintf(&c.Out, "wrote %s to %s\n", render.Count(len(r.Jobs)), plain.OneLine(c.Flags.String(flagTo)))
	}
	for _, remark := range r.Remarks {
		remarkOn(c.Call, remark)
	}
	if n := r.Lost(); n > 0 {
		err = errors.Join(err, cmdline.WithCode(cmdline.ExitNo, fmt.Errorf("import: remarks about what is not translated: %d", n)))
	}
	return err
}

// remarkOn prints a remark to stderr, for people: documents have them.
func remarkOn(c *cmdline.Call, r imports.Remark) {
	kind := "note"
	if r.Lost {
		kind = "not translated"
	}
	var of []string
	for _, part := range []string{r.Job, r.Field} {
		if part != "" {
			of = append(of, part)
		}
	}
	text := fmt.Sprintf("%s: %s: %s", kind, strings.Join(of, ", "), r.Text)
	if r.Do != "" {
		text += "; try: " + r.Do
	}
	c.Remark(text)
}

// imported reads the source that the line names.
func imported(ctx context.Context, c *call) (imports.Result, error) {
	opts := imports.Options{Zone: c.Flags.String(fields.FlagTZ), Now: c.Now()}
	if _, err := (job.Job{TimeZone: opts.Zone}).Location(); err != nil {
		return imports.Result{}, fields.Refused(err)
	}
	system, elastic := c.Flags.Bool(flagSystem), len(c.Args) > 0 && c.Args[0] == formatElastic
	switch {
	case elastic != c.Flags.IsSet(flagNamespace) || elastic && len(c.Args) > 1:
		return imports.Result{}, cmdline.Usage("import: elasticjob and --%s NAME go together, without a file", flagNamespace).
			Try("swctl import elasticjob --namespace NAME")
	case system && (len(c.Args) == 0 || c.Args[0] != formatCrontab):
		return imports.Result{}, cmdline.Usage("import: --%s is for crontabs", flagSystem).Try("leave it out")
	case elastic:
		return importElastic(ctx, c, opts)
	case len(c.Args) != 2 || c.Args[0] != formatCrontab && c.Args[0] != formatQuartz:
		return imports.Result{}, cmdline.Usage("import needs a format and a file").Try("swctl import crontab FILE; swctl import quartz FILE; swctl import elasticjob --namespace NAME")
	}
	text, err := readInput(c.Call, c.Args[1])
	switch {
	case err != nil:
		return imports.Result{}, err
	case c.Args[0] == formatQuartz:
		return imports.Quartz(text, opts), nil
	default:
		return imports.Crontab(text, system, opts), nil
	}
}

// importElastic reads ElasticJob's configurations, and changes nothing.
func importElastic(ctx context.Context, c *call, opts imports.Options) (r imports.Result, err error) {
	namespace := c.Flags.String(flagNamespace)
	set := c.Settings
	set.ServerType = cmp.Or(set.ServerType, formatElastic) // a connection has one; nothing of it is read
	quiet := func(int) {}
	err = group.Read(ctx, set, c.dial, c.Remark, quiet, func(ctx context.Context, client group.Client) error {
		found, err := client.Foreign(ctx, namespace, "config")
		refused := new(invalid.FieldError)
		switch {
		case errors.Is(err, admin.ErrNotFound):
			absent := fmt.Errorf("import: there is no namespace %s in ZooKeeper", plain.Quoted(namespace))
			return cmdline.WithHint(cmdline.WithCode(cmdline.ExitNotFound, absent), "the namespace of ElasticJob's registry center, and --zk with its servers and no chroot")
		case errors.As(err, &refused):
			return cmdline.Usage("--%s %q: %w", flagNamespace, namespace, refused.Err)
		case err != nil:
			return err
		}
		var nodes []imports.ElasticNode
		for _, node := range found {
			nodes = append(nodes, imports.ElasticNode{Name: node.Name, Class: node.Data, Config: node.Below, Found: node.Found})
		}
		r = imports.ElasticJob(nodes, opts)
		return nil
	})
	return r, err
}
