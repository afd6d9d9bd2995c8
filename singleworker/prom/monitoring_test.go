package prom_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/prom"
	"github.com/swjobs/singleworker/singleworker/prom/group"
)

// sample reads a file of sample/monitoring.
func sample(t *testing.T, name string) string {
	t.Helper()
	return read(t, filepath.Join("../../sample/monitoring", name))
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var metricName = regexp.MustCompile(`\bsingleworker_\w+`)

// wantKnown expects that every metric that a text names exists.
func wantKnown(t *testing.T, where, text string) {
	t.Helper()
	names := slices.Concat(prom.Names(), group.Names())
	for _, name := range metricName.FindAllString(text, -1) {
		if !slices.Contains(names, name) {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
}

// found returns the first group of each match.
func found(pattern, text string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// The rules name metrics that exist, promtool sees each of them fire and not fire, and OPERATE.md
// has the remedy for each.
func TestAlerts(t *testing.T) {
	t.Parallel()
	rules, tests, page := sample(t, "alerts.yml"), sample(t, "alerts_test.yml"), read(t, "../OPERATE.md")
	wantKnown(t, "alerts.yml", rules)
	wantKnown(t, "alerts_test.yml", tests)
	alerts := found(`- alert: (\w+)`, rules)
	slices.Sort(alerts)
	if len(alerts) < 10 || len(slices.Compact(slices.Clone(alerts))) != len(alerts) {
		t.Errorf("%d alerts: %q", len(alerts), alerts)
	}
	fire := found(`alertname: (\w+)\n\s+exp_alerts:`, tests)
	rest := found(`alertname: (\w+)\}`, tests)
	for _, alert := range alerts {
		if !slices.Contains(fire, alert) || !slices.Contains(rest, alert) {
			t.Errorf("no test of promtool has %s fire, or none has it not fire", alert)
		}
	}
	documented := found("(?m)^\\| `(Singleworker\\w+)` \\|", page)
	slices.Sort(documented)
	if !slices.Equal(documented, alerts) {
		t.Errorf("OPERATE.md has %q, want a row for each of %q", documented, alerts)
	}
}

// quotedName is the name of the job of an alert, quoted for a shell.
const quotedName = `'{{ $labels.job_name | reReplaceAll "'" "'\\''" }}'`

// All that can be wrong with a job or an instance, and is not meant, has an alert, whose command is
// the one of the table; of one that stands for several things, the command that tells which of them
// it is. OPERATE.md has the same command.
func TestAlertsOfConditions(t *testing.T) {
	t.Parallel()
	rules, page := sample(t, "alerts.yml"), read(t, "../OPERATE.md")
	remedies := make(map[string]string)
	for _, of := range []struct {
		meanings []reason.Meaning
		overview string
	}{{reason.Meanings(), "swctl why NAME"}, {reason.InstanceMeanings(), "swctl instances"}} {
		for _, m := range of.meanings {
			known, shared := remedies[m.Alert]
			switch {
			case m.Severity < reason.Warning:
				if m.Alert != "" {
					t.Errorf("%s is meant, or may be, and has the alert %s", m.Code, m.Alert)
				}
			case m.Alert == "":
				t.Errorf("%s has no alert", m.Code)
			case strings.Contains(m.Remedy, " ID"), shared && known != m.Remedy && of.overview != "swctl instances":
				remedies[m.Alert] = of.overview // an alert has no label for the instance
			case !shared:
				remedies[m.Alert] = m.Remedy
			}
		}
	}
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		alert, body, _ := strings.Cut(rule, "\n")
		got := strings.Join(found(`remedy: >-\n +(.*)\n`, body), ", ")
		if want := strings.ReplaceAll(remedies[alert], "NAME", quotedName); got != want {
			t.Errorf("%s: the remedy is %q, want %q", alert, got, want)
		}
		row := found("(?m)^(\\| `"+alert+"` \\|.*)$", page)
		if want := "`" + remedies[alert] + "`"; want != "``" && (len(row) != 1 || !strings.Contains(row[0], want)) {
			t.Errorf("OPERATE.md: %q, want %s in it", row, want)
		}
		delete(remedies, alert)
	}
	if len(remedies) > 0 {
		t.Errorf("alerts.yml lacks %v", remedies)
	}
}

// The dashboard is valid, and its queries name metrics that exist.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Templating struct {
			List []struct{ Name string }
		}
		Panels []struct {
			ID         int
			Type       string
			Title      string
			Datasource struct{ UID string }
			Targets    []struct{ Expr string }
			GridPos    struct{ X, Y, W, H int }
		}
	}
	text := sample(t, "dashboard.json")
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	wantKnown(t, "dashboard.json", text)
	var variables []string
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
	}
	ids := make(map[int]bool)
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d, %q: its id is used, it has no title, or is too wide", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q has %d queries, of %q", p.Title, len(p.Targets), p.Datasource.UID)
		}
		for _, target := range p.Targets {
			if !metricName.MatchString(target.Expr) || !strings.Contains(target.Expr, `server_type="$server_type"`) {
				t.Errorf("panel %q: %s", p.Title, target.Expr)
			}
			for _, variable := range found(`\$(\w+)`, target.Expr) {
				if !slices.Contains(append(variables, "__rate_interval"), variable) {
					t.Errorf("panel %q: there is no variable %s", p.Title, variable)
				}
			}
		}
	}
	if len(dashboard.Panels) < 15 {
		t.Errorf("%d panels", len(dashboard.Panels))
	}
}
