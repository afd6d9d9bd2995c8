package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/files"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	flagSet       = "set"
	flagPrune     = "prune"
	flagForce     = "force"
	flagIfVersion = "if-version"
	flagExitCode  = "exit-code"
	flagAtomic    = "atomic"
)

// appliedAtOnce is how many jobs are submitted at the same time.
const appliedAtOnce = 16

func applyCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "apply", Args: "-f FILE|DIR|-",
		Short: "have the group's jobs as files say",
		Long: `Creates the jobs of the files that do not exist, changes those that differ, and prints what it
did. Files are YAML or JSON: jobs, lists of jobs, and what swctl export, list and show print.
A document may also be a calendar, or a limit, which are set before the jobs that name them:

    kind: Calendar
    name: de-holidays
    calendar: {time_zone: Europe/Berlin, dates: ["2026-12-24"], yearly: ["12-25..12-26"]}
    ---
    {kind: Limit, name: crm-api, max: 2}

Each job is changed as a whole or not at all. What fails is listed by name, the rest is done,
and the same command again completes it; it changes nothing where nothing differs. A pause
stays as it is, unless a file has paused: true or false.

With --set NAME the jobs are recorded as those of these files, and --prune cancels the jobs of
the set that are no longer in them: never one that code declares, that somebody submitted, or
of another set. If these are more than a third of the set, it wants --confirm with their number.
Calendars and limits of the set that are no longer in the files are deleted after that.

A job that code declares, or of another set, is a conflict: it is not touched without --force.
With --if-version each job must have the version that its document tells, as swctl show prints
it. Somebody else's change between the plan and its execution is a failure of that job. With
--atomic all jobs are one transaction, into which some hundred fit, and one failure is all:
calendars and limits must be as the files say before.`,
		Examples: `swctl apply -f jobs/ --dry-run
swctl apply -f jobs/ --set billing --prune
swctl show nightly -o json > nightly.json; $EDITOR nightly.json; swctl apply -f nightly.json --if-version
swctl import crontab /etc/crontab --system --tz Europe/Berlin | swctl apply -f -`,
		Flags: append(append(planFlags(),
			cmdline.Flag{Name: flagConfirm, Usage: "`NUMBER` of the jobs that --prune cancels, if they are more than a third of the set"},
			cmdline.Flag{Name: flagAtomic, Usage: "change all jobs, or none"},
			cmdline.Flag{Name: flagDryRun, Usage: "print the plan, change nothing"},
		), whoFlags(inLog)...),
		Run: e.run(apply),
	}
}

// planFlags are common to apply and diff.
func planFlags() []cmdline.Flag {
	return []cmdline.Flag{
		filesFlag(),
		{Name: flagSet, Usage: "`NAME` of these files, which is recorded with the jobs"},
		{Name: flagPrune, Usage: "cancel the jobs of the set that the files no longer have"},
		{Name: flagForce, Usage: "also jobs that code declares, or that belong to another set"},
		{Name: flagIfVersion, Usage: "only jobs of the version that the files tell"},
	}
}

func diffCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "diff", Args: "-f FILE|DIR|-",
		Short:    "show how the group's jobs differ from files",
		Long:     `Prints what swctl apply would do, and changes nothing.`,
		Examples: `swctl diff -f jobs/ --set billing --prune --exit-code || echo differs`,
		Flags:    append(planFlags(), cmdline.Flag{Name: flagExitCode, Usage: "exit with 1 if anything differs"}),
		Run:      e.run(diff),
	}
}

// application is one run of apply or diff.
type application struct {
	*call
	opts   files.Options
	found  files.Contents
	steps  []files.Step
	pruned int // jobs that the plan cancels
	of     int // jobs of the set
}

// applicationOf reads the command line and the files.
func applicationOf(c *call) (*application, error) {
	p := &application{call: c, opts: files.Options{
		Set: c.Flags.String(flagSet), Prune: c.Flags.Bool(flagPrune), Force: c.Flags.Bool(flagForce), IfVersion: c.Flags.Bool(flagIfVersion),
	}}
	if p.opts.Prune && p.opts.Set == "" {
		return nil, cmdline.Usage("%s: --%s needs --%s", c.Command, flagPrune, flagSet).Try("--%s NAME of the files, the same each time", flagSet)
	}
	var err error
	if p.found, err = readFiles(c.Call); err != nil {
		return nil, err
	}
	for _, e := range p.found.Jobs {
		if p.opts.IfVersion && e.Version == nil {
			return nil, cmdline.Usage("%s: --%s: %s: the document tells no version", c.Command, flagIfVersion, e.Place).Try("swctl show %s -o json > FILE", e.Job.Name)
		}
	}
	return p, nil
}

// plan compares the group with the files.
func (p *application) plan(ctx context.Context, client group.Client) error {
	var has files.Group
	var err error
	if has.Jobs, err = client.List(ctx); err != nil {
		return err
	}
	if len(p.found.Calendars) > 0 || p.opts.Prune {
		if has.Calendars, err = client.Calendars(ctx); err != nil {
			return err
		}
	}
	if len(p.found.Limits) > 0 || p.opts.Prune {
		if has.Limits, err = client.Limits(ctx); err != nil {
			return err
		}
	}
	p.opts.Now = p.now()
	p.steps = files.Plan(p.found, has, p.opts)
	p.pruned, p.of = files.Pruned(p.steps, has.Jobs, p.opts.Set)
	if !slices.ContainsFunc(p.steps, func(s files.Step) bool { return s.Was.Edited }) {
		return nil
	}
	log, err := client.Log(ctx, admin.LogOptions{})
	for i := range p.steps {
		s := &p.steps[i]
		at := slices.IndexFunc(log, func(e admin.LogEntry) bool {
			return e.Edits() && slices.Contains(e.Jobs, s.Name)
		})
		if s.Was.Edited && at >= 0 {
			s.EditedBy = &log[at]
		}
	}
	return err
}

func (p *application) put(dryRun bool) error {
	return p.call.put(api.New("Plan", api.ItemsOf(p.steps), struct {
		DryRun bool `json:"dry_run"`
	}{dryRun}), func(page render.Page) { page.Plan(p.steps, dryRun) })
}

// differs reports whether there is anything to do, or to decide.
func (p *application) differs() bool {
	return slices.ContainsFunc(p.steps, func(s files.Step) bool { return s.Action != files.Unchanged })
}

func diff(ctx context.Context, c *call) error {
	p, err := applicationOf(c)
	if err != nil {
		return err
	}
	if err := c.reading(ctx, p.plan); err != nil {
		return err
	}
	err = p.put(true)
	if err == nil && c.Flags.Bool(flagExitCode) && p.differs() {
		err = &cmdline.SilentError{Code: cmdline.ExitNo}
	}
	return err
}

func apply(ctx context.Context, c *call) error {
	p, err := applicationOf(c)
	if err != nil {
		return err
	}
	dryRun, act := c.Flags.Bool(flagDryRun), p.act
	if c.Flags.Bool(flagAtomic) {
		if act = p.actAtOnce; p.opts.Prune {
			return cmdline.Usage("apply: --%s and --%s are mutually exclusive", flagAtomic, flagPrune).Try("one after the other")
		}
	}
	err = c.reading(ctx, func(ctx context.Context, client group.Client) error {
		if err := p.plan(ctx, client); err != nil || dryRun {
			return err
		}
		if confirm := strconv.Itoa(p.pruned); p.pruned*3 > p.of && c.Flags.String(flagConfirm) != confirm {
			return cmdline.WithHint(fmt.Errorf("apply: --%s: %w: %d of the %d jobs of the set %s are not in the files; nothing was changed",
				flagPrune, cmdline.ErrUnconfirmed, p.pruned, p.of, p.opts.Set), "--%s %s if that is meant; swctl diff lists them", flagConfirm, confirm)
		}
		return act(ctx, client)
	})
	if len(p.steps) == 0 {
		return err
	}
	return errors.Join(err, p.put(dryRun))
}

// act does each step, whatever becomes of the others. Calendars and limits are there before jobs
// come to name them, and go when jobs have gone. Jobs are there before others run after them.
func (p *application) act(ctx context.Context, client group.Client) error {
	var (
		all  sync.WaitGroup
		turn = make(chan struct{}, appliedAtOnce)
		errs = make([]error, len(p.steps))
	)
	jobs, order := make([]job.Job, len(p.steps)), make([]int, len(p.steps))
	for i, s := range p.steps {
		jobs[i], order[i] = s.Job, i
	}
	generations, stage := files.Generations(jobs), make([]int, len(p.steps))
	for i := range p.steps {
		if i > 0 && p.steps[i].Kind != p.steps[i-1].Kind {
			stage[i] = stage[i-1] + 1
		} else if i > 0 {
			stage[i] = stage[i-1]
		}
	}
	byTurn := func(a, b int) int {
		return cmp.Or(cmp.Compare(stage[a], stage[b]), cmp.Compare(generations[a], generations[b]))
	}
	slices.SortStableFunc(order, byTurn)
	for n, i := range order {
		if n > 0 && byTurn(order[n-1], i) != 0 {
			all.Wait()
		}
		turn <- struct{}{}
		all.Go(func() {
			errs[i] = do(ctx, client, &p.steps[i])
			<-turn
		})
	}
	all.Wait()
	var failed []error
	for i, err := range errs {
		if err != nil {
			p.steps[i].Error = err.Error()
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	things := "jobs"
	if slices.ContainsFunc(p.steps, func(s files.Step) bool { return s.Kind != "" }) {
		things = "jobs, calendars and limits"
	}
	return fmt.Errorf("apply: %d of %d %s failed, and the others are done: %w", len(failed), len(p.steps), things, failed[0])
}

// actAtOnce does all steps in one transaction.
func (p *application) actAtOnce(ctx context.Context, client group.Client) error {
	var jobs []admin.Submission
	var of []*files.Step
	for i := range p.steps {
		switch s := &p.steps[i]; s.Action {
		case files.Conflict:
			return fmt.Errorf("apply: nothing was changed: %w", conflict(s))
		case files.Create, files.Change:
			if s.Kind != "" {
				return cmdline.Usage("apply: --%s is for jobs alone, and the %s %s differs; nothing was changed", flagAtomic, strings.ToLower(s.Kind), s.Name).
					Try("without --%s, the calendars and limits first", flagAtomic)
			}
			jobs, of = append(jobs, admin.Submission{Job: s.Job, Options: s.Options}), append(of, s)
		case files.Unchanged, files.Prune: // the latter is refused with --atomic
		}
	}
	changes, err := client.SubmitAll(ctx, jobs)
	if err != nil {
		return fmt.Errorf("apply: nothing was changed: %w", group.Refused(err))
	}
	for i, done := range changes {
		of[i].Outcome = done.Outcome
	}
	return nil
}

// do does a step.
func do(ctx context.Context, client group.Client, s *files.Step) error {
	if s.Kind != "" {
		return doNamed(ctx, client, s)
	}
	switch s.Action {
	case files.Create, files.Change:
		done, err := client.Submit(ctx, s.Job, s.Options)
		s.Outcome = done.Outcome
		return group.Refused(err)
	case files.Prune:
		_, err := client.CancelSeen(ctx, s.Name, s.Was.Seen())
		if err == nil || errors.Is(err, admin.ErrNotFound) {
			s.Outcome = outcomePruned
			return nil
		}
		return fmt.Errorf("prune %s: %w", s.Name, err)
	case files.Conflict:
		return conflict(s)
	case files.Unchanged:
		s.Outcome = admin.OutcomeUnchanged
	}
	return nil
}

// doNamed does a step for a calendar, or for a limit.
func doNamed(ctx context.Context, client group.Client, s *files.Step) error {
	switch s.Action {
	case files.Create, files.Change:
		var done admin.NamedChange
		var err error
		if opts := (admin.NamedOptions{Set: s.Set}); s.IsLimit() {
			done, err = client.SetLimit(ctx, s.Name, s.Max, opts)
		} else {
			done, err = client.SetCalendar(ctx, s.Name, s.Is, opts)
		}
		s.Outcome = done.Outcome
		return err
	case files.Prune:
		var err error
		if s.IsLimit() {
			_, err = client.DeleteLimit(ctx, s.Name, admin.NamedOptions{})
		} else {
			_, err = client.DeleteCalendar(ctx, s.Name, admin.NamedOptions{})
		}
		if err == nil || errors.Is(err, admin.ErrNoCalendar) || errors.Is(err, admin.ErrNoLimit) {
			s.Outcome = outcomePruned
			return nil
		}
		return fmt.Errorf("prune: %w", err)
	case files.Conflict:
		return conflict(s)
	case files.Unchanged:
		s.Outcome = admin.OutcomeUnchanged
	}
	return nil
}

const outcomePruned admin.Outcome = "pruned"

// conflict says that somebody must decide about a job.
func conflict(s *files.Step) error {
	return cmdline.WithCode(cmdline.ExitConflict, fmt.Errorf("%s: %s: %s", s.Place, s.Name, s.Why))
}
