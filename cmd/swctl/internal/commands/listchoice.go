package commands

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

const (
	flagState   = "state"
	flagFailing = "failing"
	flagOwner   = "owner"
	flagSort    = "sort"
	flagWatch   = "watch"
)

// choiceFlags say which jobs are listed, and in which order.
func choiceFlags() []cmdline.Flag {
	return []cmdline.Flag{
		{Name: fields.FlagLabel, Alias: "l", Usage: "`KEY=VALUE` only jobs with this label; may be repeated, and then all must match", Repeated: true},
		{Name: flagState, Usage: "`STATE,...` only jobs with one of these states, in either word", Values: words.States()},
		{Name: flagFailing, Usage: "only jobs that need attention: any state that is not meant, as failing, late and nobody are, and a pause of more than a day"},
		{Name: flagOwner, Usage: "`ID` only jobs that this instance owns, or a shard of which it owns"},
		{Name: flagSort, Usage: "`KEY` name, state (the worst first), last (the latest first), next or owner (default name)", Values: slices.Sorted(maps.Keys(orders))},
		{Name: flagWatch, Usage: "show them again whenever something changes, until interrupted"},
	}
}

// choice is which jobs to list. All that is given must match.
type choice struct {
	patterns []string // of names; one of them must match
	labels   map[string]string
	states   []string
	failing  bool
	owner    string
	order    func(a, b admin.JobStatus) int
}

// choiceOf reads the command line of list.
func choiceOf(c *cmdline.Call) (chosen choice, err error) {
	chosen = choice{patterns: c.Args, failing: c.Flags.Bool(flagFailing), owner: c.Flags.String(flagOwner)}
	if chosen.labels, err = c.Pairs(fields.FlagLabel, ""); err != nil {
		return chosen, err
	}
	for _, pattern := range c.Args {
		if _, err := path.Match(pattern, ""); err != nil {
			return chosen, cmdline.Usage("list: %q is not a pattern of names", pattern).Try("swctl list 'bil*', where * is any text, ? any letter and [a-z] one of these")
		}
	}
	if c.Flags.IsSet(flagState) {
		chosen.states = strings.Split(c.Flags.String(flagState), ",")
	}
	for _, state := range chosen.states {
		known := func(m reason.Meaning) bool { return state == m.State || state == m.Word }
		if state != admin.HealthOK && !slices.ContainsFunc(reason.Meanings(), known) {
			return chosen, cmdline.Usage("--%s: no job has the state %q", flagState, state).Try("%s", strings.Join(words.States(), ", "))
		}
	}
	if chosen.order = orders[cmp.Or(c.Flags.String(flagSort), "name")]; chosen.order == nil {
		err = cmdline.Usage("--%s %q: want name, state, last, next or owner", flagSort, c.Flags.String(flagSort))
	}
	return chosen, err
}

// of chooses among jobs that are sorted by name.
func (chosen choice) of(all []admin.JobStatus) []admin.JobStatus {
	jobs := slices.DeleteFunc(slices.Clone(all), func(job admin.JobStatus) bool { return !chosen.has(job) })
	slices.SortStableFunc(jobs, chosen.order)
	return jobs
}

func (chosen choice) has(job admin.JobStatus) bool {
	for key, want := range chosen.labels {
		if value, ok := job.Job.Labels[key]; !ok || value != want {
			return false
		}
	}
	named := func(pattern string) bool {
		matches, _ := path.Match(pattern, job.Name)
		return matches || pattern == job.Name
	}
	owned := func(slot admin.JobStatus) bool { return slot.Owner != nil && slot.Owner.InstanceID == chosen.owner }
	stands := func(state string) bool {
		return state == job.Health() || len(job.Conditions) > 0 && state == job.Conditions[0].Word
	}
	return (len(chosen.patterns) == 0 || slices.ContainsFunc(chosen.patterns, named)) &&
		(len(chosen.states) == 0 || slices.ContainsFunc(chosen.states, stands)) &&
		(!chosen.failing || severity(job) != reason.Fine) &&
		(chosen.owner == "" || slices.ContainsFunc(words.Slots(job), owned))
}

// severity is how urgent the health of a job is.
func severity(job admin.JobStatus) reason.Severity {
	if len(job.Conditions) == 0 {
		return reason.Fine
	}
	return job.Conditions[0].Severity
}

// orders sort jobs that are sorted by name. A job without a time is behind the others.
var orders = map[string]func(a, b admin.JobStatus) int{
	"name": func(admin.JobStatus, admin.JobStatus) int { return 0 },
	"state": func(a, b admin.JobStatus) int {
		return cmp.Or(cmp.Compare(severity(b), severity(a)), cmp.Compare(ranks[b.Health()], ranks[a.Health()]))
	},
	"last": func(a, b admin.JobStatus) int { return words.LastTick(b).Compare(words.LastTick(a)) },
	"next": func(a, b admin.JobStatus) int {
		if a.NextRun.IsZero() != b.NextRun.IsZero() {
			return b.NextRun.Compare(a.NextRun)
		}
		return a.NextRun.Compare(b.NextRun)
	},
	"owner": func(a, b admin.JobStatus) int { return cmp.Compare(words.Owner(a), words.Owner(b)) },
}

// ranks has a number for each state, the larger the worse, and 0 for ok.
var ranks = func() map[string]int {
	all := make(map[string]int)
	for i, m := range slices.Backward(reason.Meanings()) {
		all[m.State] = len(reason.Meanings()) - i
	}
	return all
}()
