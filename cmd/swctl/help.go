package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

func (a *app) helpCommand() *command {
	return &command{
		name: "help", args: "[COMMAND | TOPIC]",
		short: "show help for a command, or for exit-codes or schedule",
		examples: `swctl help submit
swctl help exit-codes
swctl help schedule`,
		run: a.help,
	}
}

// help works whatever the other flags and variables hold: who asks for help
// has trouble enough.
func (a *app) help(flags *cli.Context) error {
	args := flags.Args()
	name := strings.Join(args.Slice(), " ")
	if args.Len() > 1 && find(a.commands(), name) == nil {
		return usage("help takes one command or topic").try("swctl help %s", args.First())
	}
	switch name {
	case "":
		return a.print(appHelp(a.commands()))
	case "exit-codes":
		return a.print(exitCodesHelp())
	case "schedule":
		return a.print([]byte(scheduleHelp))
	default:
		if cmd := find(a.commands(), name); cmd != nil {
			return a.print(commandHelp(cmd))
		}
		err := usage("no command or topic %q", name)
		if near := nearest(name, []string{"exit-codes", "schedule"}); near != "" {
			return err.try("swctl help %s", near)
		}
		if near := meant(a.commands(), name); near != "" {
			return err.try("swctl help %s", near)
		}
		return err.try("swctl help")
	}
}

func appHelp(commands []*command) []byte {
	var out bytes.Buffer
	out.WriteString(`swctl submits, cancels and shows the timed jobs that the instances of an
application share through ZooKeeper.

Usage:
  swctl COMMAND [ARGUMENTS] [FLAGS]

Commands:
`)
	t := &table{}
	for _, cmd := range commands {
		t.row(strings.TrimSpace(strings.Join(append([]string{cmd.name}, cmd.aliases...), ", ")+" "+cmd.args), cmd.short)
	}
	t.write(&out, "  ")
	writeFlags(&out, "Flags of every command, before or after it", sharedFlags())
	out.WriteString(`
Examples:
  export SWCTL_ZK=zk1:2181,zk2:2181/prod SWCTL_SERVER_TYPE=billing
  swctl submit nightly '0 3 * * *' --tz Europe/Berlin --handler report
  swctl list

swctl help COMMAND tells more; swctl help exit-codes and swctl help schedule too.
`)
	return out.Bytes()
}

func commandHelp(cmd *command) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "swctl %s: %s\n\nUsage:\n", cmd.name, cmd.short)
	for _, name := range append([]string{cmd.name}, cmd.aliases...) {
		synopsis := cmd.args + " [FLAGS]"
		if strings.HasPrefix(cmd.args, "--") {
			synopsis = "[FLAGS] " + cmd.args // what follows "--" is not ours
		}
		fmt.Fprintf(&out, "  %s\n", strings.Join(strings.Fields("swctl "+name+" "+synopsis), " "))
	}
	if cmd.long != "" {
		fmt.Fprintf(&out, "\n%s\n", cmd.long)
	}
	writeFlags(&out, "Flags", cmd.flags)
	writeFlags(&out, "Flags of every command", sharedFlags())
	fmt.Fprintf(&out, "\nExamples:\n")
	for example := range strings.Lines(cmd.examples) {
		fmt.Fprintf(&out, "  %s\n", strings.TrimRight(example, "\n"))
	}
	return out.Bytes()
}

func writeFlags(out *bytes.Buffer, title string, flags []cli.Flag) {
	if len(flags) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	t := &table{}
	for _, f := range flags {
		info := infoOf(f)
		var names []string
		for _, name := range slices.Backward(info.names) { // the short name first
			names = append(names, dashed(name))
		}
		t.row(strings.TrimSpace(strings.Join(names, ", ")+" "+info.placeholder), info.usage)
	}
	t.write(out, "  ")
}

func exitCodesHelp() []byte {
	var out bytes.Buffer
	out.WriteString("Exit codes, with the names they have in errors under -o json:\n\n")
	t := &table{}
	for _, info := range exitInfos() {
		t.row(strconv.Itoa(int(info.code)), info.name, info.meaning)
	}
	t.write(&out, "  ")
	return out.Bytes()
}

const scheduleHelp = `A schedule says when a job runs. Quote it, or the shell takes it apart.

  0 3 * * *                       crontab: minute hour day-of-month month day-of-week
  0 0 3 * * ?                     Quartz: second minute hour day-of-month month day-of-week
  0 0 3 ? * MON-FRI 2027          Quartz with a year
  @hourly @daily @weekly @monthly @yearly
  @every 90s                      at least 1s; counted from 1970, the same on every instance
  @at 2026-12-24T18:00:00+01:00   once

Five fields: days of the week are 0 to 7, where 0 and 7 are Sunday. If both a day
of the month and a day of the week are given, the job runs on either.
Six or seven fields: days of the week are 1 (SUN) to 7 (SAT); one of the two days
is ?. Also L (last day), LW (last weekday), L-3, 15W (weekday nearest to the
15th), 6L (last Friday), 6#3 (third Friday).
Fields take lists 1,15, ranges 9-17, steps */5 and names JAN, MON.

The time zone is the job's (--tz, an IANA name; default UTC), never that of the
machine. Where clocks change: with an hour of * the job goes on by elapsed time;
otherwise it runs once at a time that comes twice, at the first of them, and once
at a time that is left out, at the first moment after the gap.

A schedule that never runs again is refused. Try one without a server:

  swctl next --cron '0 3 * * *' --tz Europe/Berlin
`
