package render

import (
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/files"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Plan lists the steps that have a group be as files say, and, unless it is a dry run, how they
// ended.
func (p Page) Plan(steps []files.Step, dryRun bool) {
	counts := map[string]int{}
	for _, s := range steps {
		word := string(s.Action)
		if !dryRun && s.Outcome != "" {
			word = string(s.Outcome)
		}
		if s.Error != "" && s.Action != files.Conflict {
			word = "failed"
		}
		if counts[word]++; word == string(files.Unchanged) {
			continue
		}
		if s.Kind != "" {
			word += " " + strings.ToLower(s.Kind)
		}
		p.linef("%s %s  %s", word, s.Name, s.Place)
		p.differences(s.Differences)
		if by := s.EditedBy; by != nil {
			p.linef("  %s had changed it %s: %s", by.By, plain.Moment(by.At, p.Now, s.Was.Job.Zone()), by.Kind)
		} else if s.Was.Edited {
			p.linef("  somebody had changed it since its set was applied")
		}
		switch {
		case s.Action == files.Conflict:
			p.linef("  %s", s.Why)
		case s.Error != "":
			p.linef("  %s", s.Error)
		}
	}
	var texts []string
	for _, word := range []string{"create", "created", "change", "changed", "replaced", "prune", "pruned", "unchanged", "conflict", "failed"} {
		if n := counts[word]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, word))
		}
	}
	p.linef("%s", strings.Join(texts, ", "))
}
