package cmdline

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
)

// The topics of help that are no commands.
const (
	topicExitCodes = "exit-codes"
	topicSchedule  = "schedule"
)

func (a *App) helpCommand() *Command {
	return &Command{
		Name: "help", Args: "[COMMAND | TOPIC]",
		Short: "show help for a command, or for exit-codes or schedule",
		Examples: `swctl help submit
swctl help exit-codes
swctl help schedule
swctl help --man /usr/local/share/man/man1`,
		Flags: []Flag{{Name: flagMan, Usage: "`DIR` write all of it there, as pages for man"}},
		Run:   a.help, Lenient: true,
	}
}

func (a *App) help(_ context.Context, c *Call) error {
	switch {
	case c.Flags.IsSet(flagMan) && len(c.Args) > 0:
		return Usage("help --%s writes all pages, and takes no arguments", flagMan).Try("swctl help --%s DIR", flagMan)
	case c.Flags.IsSet(flagMan):
		return a.writeMan(c.Flags.String(flagMan))
	}
	name := strings.Join(c.Args, " ")
	if len(c.Args) > 1 && find(a.commands(), name) == nil {
		return Usage("help takes one command or topic").Try("swctl help %s", c.Args[0])
	}
	switch name {
	case "":
		return a.print(a.appHelp())
	case topicExitCodes:
		return a.print([]byte(a.named(exitCodesHelp())))
	case topicSchedule:
		return a.print([]byte(a.named(scheduleHelp)))
	default:
		if cmd := find(a.commands(), name); cmd != nil {
			return a.print(a.commandHelp(cmd))
		}
		err := Usage("no command or topic %q", name)
		if near := Nearest(name, []string{topicExitCodes, topicSchedule}); near != "" {
			return err.Try("swctl help %s", near)
		}
		if near := meant(a.commands(), name); near != "" {
			return err.Try("swctl help %s", near)
		}
		return err.Try("swctl help")
	}
}

const about = `submits, cancels and shows the timed jobs that the instances of an
application share through ZooKeeper.`

func (a *App) appHelp() []byte {
	var out bytes.Buffer
	out.WriteString("swctl " + about + `

Usage:
  swctl COMMAND [ARGUMENTS] [FLAGS]

Commands:
`)
	t := &output.Table{}
	for _, cmd := range a.commands() {
		t.Row(strings.TrimSpace(strings.Join(append([]string{cmd.Name}, cmd.Aliases...), ", ")+" "+cmd.Args), cmd.Short)
	}
	t.Write(&out, "  ")
	writeFlags(&out, "Flags of every command, before or after it", SharedFlags())
	out.WriteString(`
Examples:
  export SWCTL_ZK=zk1:2181,zk2:2181/prod SWCTL_SERVER_TYPE=billing
  swctl submit nightly '0 3 * * *' --tz Europe/Berlin --handler report
  swctl list

swctl help COMMAND tells more; swctl help exit-codes and swctl help schedule too.
`)
	return []byte(a.named(out.String()))
}

func (a *App) commandHelp(cmd *Command) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "swctl %s: %s\n\nUsage:\n", cmd.Name, cmd.Short)
	for _, name := range append([]string{cmd.Name}, cmd.Aliases...) {
		synopsis := cmd.Args + " [FLAGS]"
		if strings.HasPrefix(cmd.Args, "--") {
			synopsis = "[FLAGS] " + cmd.Args // what follows "--" is not ours
		}
		fmt.Fprintf(&out, "  %s\n", strings.Join(strings.Fields("swctl "+name+" "+synopsis), " "))
	}
	if cmd.Long != "" {
		fmt.Fprintf(&out, "\n%s\n", cmd.Long)
	}
	writeFlags(&out, "Flags", cmd.Flags)
	writeFlags(&out, "Flags of every command", SharedFlags())
	fmt.Fprintf(&out, "\nExamples:\n")
	for example := range strings.Lines(cmd.Examples) {
		fmt.Fprintf(&out, "  %s\n", strings.TrimRight(example, "\n"))
	}
	return []byte(a.named(out.String()))
}

func writeFlags(out *bytes.Buffer, title string, flags []Flag) {
	if len(flags) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	t := &output.Table{}
	for _, f := range flags {
		placeholder, usage := f.help()
		var names []string
		for _, name := range slices.Backward(f.Names()) { // the short name first
			names = append(names, dashed(name))
		}
		t.Row(strings.TrimSpace(strings.Join(names, ", ")+" "+placeholder), usage)
	}
	t.Write(out, "  ")
}

func exitCodesHelp() string {
	var out bytes.Buffer
	out.WriteString("Exit codes, with the names they have in errors under -o json:\n\n")
	t := &output.Table{}
	for _, info := range exitInfos() {
		t.Row(strconv.Itoa(int(info.code)), info.name, info.meaning)
	}
	t.Write(&out, "  ")
	return out.String()
}

const scheduleHelp = `A schedule says when a job runs. Quote it, or the shell takes it apart.

  0 3 * * *                       crontab: minute hour day-of-month month day-of-week
  0 0 3 * * ?                     Quartz: second minute hour day-of-month month day-of-week
  0 0 3 ? * MON-FRI 2027          Quartz with a year
  @hourly @daily @weekly @monthly @yearly
  @every 90s                      at least 1s; counted from 1970, the same on every instance
  @at 2026-12-24T18:00:00+01:00   once; the job is removed a day later (--keep-done)
  @always                         all the time, on one instance: started again when it ends
  @manually                       never: the job runs when somebody triggers it (swctl trigger)

Five fields: days of the week are 0 to 7, where 0 and 7 are Sunday. If both a day
of the month and a day of the week are given, the job runs on either.
Six or seven fields: days of the week are 1 (SUN) to 7 (SAT); one of the two days
is ?. Also L (last day), LW (last weekday), L-3, 15W (weekday nearest to the
15th), 6L (last Friday), 6#3 (third Friday).
Fields take lists 1,15, ranges 9-17, steps */5 and names JAN, MON.

The time zone is the job's (--tz, an IANA name; default UTC), never that of the
machine. Where clocks change: with an hour of * the job follows elapsed time;
otherwise it runs once at a time that comes twice, at the first of them, and once
at a time that is left out, at the first moment after the gap.

A schedule that never runs again is refused. Try one without a server:

  swctl next --cron '0 3 * * *' --tz Europe/Berlin
`
