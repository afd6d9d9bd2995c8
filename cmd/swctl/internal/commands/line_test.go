package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
)

func TestPrePass(t *testing.T) {
	t.Parallel()
	// A line as it is typed; what urfave/cli is given.
	for typed, want := range map[string]string{
		"list":                     "list --",
		"ls":                       "list --",
		"cancel a --yes":           "cancel --yes -- a",
		"cancel a -y b":            "cancel --yes -- a b",
		"cancel --yes=false a":     "cancel --yes=false -- a",
		"--yes cancel a":           "cancel --yes -- a",
		"-o json list":             "list --output=json --",
		"-ojson list":              "list --output=json --",
		"list -o=json":             "list --output=json --",
		"list -output json":        "list --output=json --",
		"-o json list --output x":  "list --output=json --output=x --",
		"--zk a --zk b show n":     "show --zk=a --zk=b -- n",
		"show list":                "show -- list",
		"show help":                "show -- help",
		"show -- --zk":             "show -- --zk",
		"show -- -h":               "show -- -h",
		"-- show --zk":             "show -- --zk",
		"show -5":                  "show -- -5",
		"show -":                   "show -- -",
		"next -n -3 a":             "next --n=-3 -- a",
		"next -n3 a":               "next --n=3 -- a",
		"submit a */5_*_*_*_*":     "submit -- a */5_*_*_*_*",
		"submit a @every_5m":       "submit -- a @every_5m",
		"submit @daily --tz X a":   "submit --tz=X -- @daily a",
		"submit a b --arg -x=1":    "submit --arg=-x=1 -- a b",
		"submit a b --arg c=--d":   "submit --arg=c=--d -- a b",
		"submit a b --arg=--c=--d": "submit --arg=--c=--d -- a b",
		"list --zk=":               "list --zk= --",
		"--version":                "version --",
		"-V -o json":               "version --output=json --",
	} {
		var tokens []string
		for token := range strings.FieldsSeq(typed) {
			tokens = append(tokens, strings.ReplaceAll(token, "_", " "))
		}
		line := cmdline.ParseLine(newHarness(t).Commands, tokens)
		if line.Err != nil || line.Unknown != "" || line.Help {
			t.Errorf("%s: err %v, unknown %q, help %v", typed, line.Err, line.Unknown, line.Help)
			continue
		}
		got := strings.Join(line.Normal(), " ")
		if got != "swctl "+strings.ReplaceAll(want, "_", " ") {
			t.Errorf("%s\n got %s\nwant swctl %s", typed, got, want)
		}
	}
}

func TestPrePassRefuses(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"":                            "exit 0",
		"--zk x":                      "swctl: no command given / try: swctl help lists the commands / exit 2",
		"cancle a":                    `swctl: no command "cancle" / try: swctl cancel / exit 2`,
		"rm a":                        `swctl: no command "rm" / try: swctl cancel / exit 2`,
		"frobnicate":                  `swctl: no command "frobnicate" / try: swctl help lists the commands / exit 2`,
		"help lst":                    `swctl: no command or topic "lst" / try: swctl help list / exit 2`,
		"help exit-code":              `swctl: no command or topic "exit-code" / try: swctl help exit-codes / exit 2`,
		"cancle -h":                   `swctl: no command "cancle" / try: swctl cancel / exit 2`,
		"list --zk":                   "swctl: list: flag --zk needs a value / try: --zk HOSTS / exit 2",
		"list --server-type --zk z":   "swctl: list: flag --server-type needs a value, but --zk follows / try: --server-type NAME, or --server-type=--zk if that is the value / exit 2",
		"list --server-type -o table": "swctl: list: flag --server-type needs a value, but -o follows / try: --server-type NAME, or --server-type=-o if that is the value / exit 2",
		"cancel a --al":               "swctl: cancel: unknown flag --al / try: --all / exit 2",
		"show a --yes":                "swctl: show has no flag --yes / try: swctl show --help / exit 2",
		"--replace show a":            "swctl: show has no flag --replace / try: swctl show --help / exit 2",
		"show a -x":                   "swctl: show: unknown flag -x / try: swctl show --help; an argument that begins with - goes after -- / exit 2",
		"--blurb list":                "swctl: unknown flag --blurb / try: swctl help / exit 2",
		"list --generate-bash-completion": "swctl: list: unknown flag --generate-bash-completion / " +
			"try: swctl list --help; an argument that begins with - goes after -- / exit 2",
		"cancel a --yes=perhaps": `swctl: cancel: invalid boolean value "perhaps" for -yes: parse error / try: swctl cancel --help / exit 2`,
	} {
		h := newHarness(t)
		code := h.exec(strings.Fields(typed)...)
		got := strings.ReplaceAll(h.errs.String(), "\n", " / ") + fmt.Sprintf("exit %d", code)
		if got != want {
			t.Errorf("swctl %s\n got %s\nwant %s", typed, got, want)
		}
		if len(h.fake.calls) > 0 || code != cmdline.ExitOK && h.out.Len() > 0 {
			t.Errorf("swctl %s: calls %q, stdout %q", typed, h.fake.calls, h.out.String())
		}
	}
}

// Every command takes every shared flag in every place, and takes it in.
func TestSharedFlagsEverywhere(t *testing.T) {
	t.Parallel()
	args := map[string][]string{
		"submit": {"nightly", "@daily"}, "apply": nil, "diff": nil, "validate": nil, "export": nil, "import": {"crontab", "-"}, "set": {"nightly"}, "rollback": {"nightly"}, "undelete": {"nightly"}, "cancel": {"nightly"}, "clear": nil, "doctor": nil, "list": nil, "tree": nil, "top": nil, "show": {"nightly"},
		"next": {"nightly"}, "instances": nil, "instances show": {"app-1"}, "instances drain": {"app-1"}, "instances disable": {"app-1"}, "instances enable": {"app-1"}, "dev": nil, "serve": nil, "serve export": nil, "serve restore": nil, "completion": {"zsh"}, "config": {"view"}, "calendars": nil, "calendars show": {"a"}, "calendars set": {"a", "-"}, "calendars delete": {"a"}, "limits": nil, "limits show": {"a"}, "limits set": {"a"}, "limits delete": {"a"}, "limits free": {"a"}, "acl": nil, "acl init": nil, "acl check": nil, "once": nil, "once reset": nil, "version": nil, "help": {"list"},
		"pause": {"nightly"}, "repair": {"nightly"}, "resume": {"nightly"}, "freeze": nil, "unfreeze": nil, "history": {"nightly"}, "log": nil, "why": {"nightly"},
		"trigger": {"nightly"}, "backfill": {"nightly"}, "retry": {"nightly", "0198c5ff"}, "stop-run": {"nightly", "0198c5ff"}, "requests": {"nightly"}, "requests cancel": {"nightly"}, "guard": {"app"}, "audit": nil, "watch": nil, "ui": nil, "runlog": nil, "notify": nil, "notify test": nil,
	}
	commands := newHarness(t).Commands
	for _, cmd := range commands {
		own, ok := args[cmd.Name]
		if !ok {
			t.Errorf("no arguments for %s: add them to this test", cmd.Name)
		}
		for _, shared := range cmdline.SharedFlags() {
			for _, name := range shared.Names() {
				for _, form := range [][]string{{dashed(name), "v"}, {dashed(name) + "=v"}} {
					for place := range len(own) + 2 {
						tokens := slices.Insert(append([]string{cmd.Name}, own...), place, form...)
						line := cmdline.ParseLine(commands, tokens)
						want := cmdline.FlagValue{Name: shared.Names()[0], Value: "v"}
						if line.Err != nil || line.Command.Name != cmd.Name || !slices.Equal(line.Args, own) ||
							!slices.Equal(line.Flags, []cmdline.FlagValue{want}) {
							t.Errorf("swctl %q: %+v", tokens, line)
						}
					}
				}
			}
		}
	}
}

// The same to the end: the value reaches the server, in all three places.
func TestSharedFlagsArrive(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--zk", "z", "--server-type", "s", "-o", "json", "show", "nightly"},
		{"show", "--zk", "z", "--server-type", "s", "-o", "json", "nightly"},
		{"show", "nightly", "--zk", "z", "--server-type", "s", "-o", "json"},
		{"--zk", "x", "-o", "table", "show", "--server-type", "s", "nightly", "--output=json", "--zk=z"},
	} {
		h := newHarness(t)
		h.vars = map[string]string{cmdline.EnvZK: "env", cmdline.EnvServerType: "env", cmdline.EnvOutput: "table"}
		if code := h.exec(args...); code != cmdline.ExitOK || h.config.Servers != "z" || h.config.ServerType != "s" || h.out.Bytes()[0] != '{' {
			t.Errorf("swctl %q: exit %d, config %+v, stderr %q, stdout %q", args, code, h.config, h.errs.String(), h.out.String())
		}
	}
}

// The pre-pass tells flags apart before it knows the command: one name must
// not take a value for one command and none for another.
func TestFlagsAgree(t *testing.T) {
	t.Parallel()
	takesValue := map[string]bool{}
	for _, cmd := range newHarness(t).Commands {
		for _, f := range append(slices.Clip(cmd.Flags), cmdline.SharedFlags()...) {
			if _, usage, _ := strings.Cut(strings.TrimPrefix(f.Usage, "`"), "` "); f.Usage == "" || f.TakesValue() && usage == "" {
				t.Errorf("%s --%s: no usage", cmd.Name, f.Name)
			}
			for _, name := range f.Names() {
				if other, ok := takesValue[name]; ok && other != f.TakesValue() || name == "h" || name == "help" {
					t.Errorf("%s: flag %s clashes", cmd.Name, name)
				}
				takesValue[name] = f.TakesValue()
			}
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("cancel\x00a\x00--yes")
	f.Add("-ojson\x00list\x00--\x00-h")
	f.Fuzz(func(_ *testing.T, text string) {
		line := cmdline.ParseLine((&app{}).commands(), strings.Split(text, "\x00"))
		if line.Command != nil && line.Err == nil {
			line.Normal()
		}
	})
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
