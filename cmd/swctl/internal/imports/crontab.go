package imports

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/swjobs/singleworker/singleworker/job"
)

const maxCrontabLine = 8 << 10

// Crontab makes jobs of a crontab; system says that its lines name a user, as in /etc/crontab and
// /etc/cron.d.
func Crontab(text []byte, system bool, opts Options) Result {
	c := crontab{maker: newMaker(opts), system: system, shell: "/bin/sh"}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		field := fmt.Sprintf("line %d", n)
		line = strings.Trim(line, " \t\r\n")
		switch {
		case line == "" || line[0] == '#':
		case len(line) > maxCrontabLine:
			c.lostf("", field, "put the command into a script", "has %d bytes, at most %d are read", len(line), maxCrontabLine)
		case !utf8.ValidString(line) || strings.ContainsRune(line, 0):
			c.lostf("", field, "convert the file with iconv", "is not UTF-8 text")
		case assignment.MatchString(line):
			c.variable(field, assignment.FindStringSubmatch(line))
		default:
			c.entry(field, line)
		}
	}
	if len(c.Jobs) > 0 {
		c.notef("", "all jobs", "register jobs.Command as the handler "+handlerCommand+" with Allow: "+strings.Join(c.programs(), ", "),
			"they run as the user of the instance that owns them, with CommandConfig.Dir and CommandConfig.Env; "+
				"cron would start a line again while it still runs, here such a tick is skipped, or waits with the overlap policy queue")
	}
	return c.result()
}

// crontab reads one.
type crontab struct {
	*maker

	system   bool
	shell    string
	cronZone string // of CRON_TZ
	tz       string // of TZ
}

// assignment is a line such as MAILTO = "ops": cron allows blanks and quotes.
var assignment = regexp.MustCompile(`^["']?([A-Za-z_][A-Za-z0-9_]*)["']?\s*=\s*(.*)$`)

func (c *crontab) variable(field string, parts []string) {
	name, value := parts[1], parts[2]
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	switch name {
	case "CRON_TZ":
		c.cronZone = value
	case "TZ":
		c.tz = value
		c.lostf("", field+" TZ", "check what the machine's cron does with TZ; set it in jobs.CommandConfig.Env if commands need it",
			"is taken as the time zone of the schedules below it, unless CRON_TZ says another; some crons only hand it to the commands, which do not get it here")
	case "SHELL":
		if !isCleanPath(value) {
			c.lostf("", field+" SHELL", "an absolute path", "%q is not the path of a shell: lines below it run with %s", part(value), c.shell)
			return
		}
		c.shell = value
		c.notef("", field+" SHELL", "", "lines below it that need a shell run with %s", value)
	case "MAILTO", "MAILFROM":
		if value == "" && name == "MAILTO" {
			return // no mail is sent here, either
		}
		c.lostf("", field+" "+name, "Hooks.OnRunEnd sees failures; jobs.CommandConfig.Output gets what commands print", "nobody gets mail with what a command prints")
	default:
		c.lostf("", field+" "+name, name+" in jobs.CommandConfig.Env, or in a script", "commands do not get the variable: jobs have no environment")
	}
}

// entry reads a line with a schedule and a command.
func (c *crontab) entry(field, line string) {
	fields := 5
	if line[0] == '@' {
		fields = 1
	}
	schedule, rest := cut(line, fields)
	user := ""
	if c.system {
		user, rest = cut(rest, 1)
	}
	if rest == "" {
		c.lostf("", field, "correct it in the source; --system is for files whose lines name a user", "is not a line of a crontab: %q", part(line))
		return
	}
	command, stdin := stdinOf(rest)
	name := c.unique(commandName(command))
	if strings.EqualFold(schedule, "@reboot") {
		c.lostf(name, field, "start it with the machine, as a unit of systemd; or with the schedule @always if it is to run all the time", "there is no job for it: nothing here runs when a machine starts")
		return
	}
	if strings.HasPrefix(schedule, "@") && !slices.Contains([]string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}, strings.ToLower(schedule)) {
		c.lostf(name, field, "swctl help schedule", "there is no job for it: %s is not a schedule of cron", part(schedule))
		return
	}
	// As cron does: it does not run a missed or interrupted one again.
	j := job.Job{Name: name, Schedule: strings.ToLower(schedule), Misfire: job.MisfireSkip, Interrupted: job.InterruptedSkip}
	if c.cronZone != "" {
		j.TimeZone = c.zone(c.cronZone)
	} else {
		j.TimeZone = c.zone(c.tz)
	}
	if stdin != nil {
		command = "printf '%s\\n' " + strings.Join(shellQuoted(stdin), " ") + " | {\n" + command + "\n}"
		c.notef(name, field, "", "what follows %% in the command is its standard input: printf writes it")
	}
	c.command(&j, c.shell, command)
	if user != "" {
		c.lostf(name, field, "run instances as that user and give them a label that the job requires (--require), or let a script change the user", "does not run as %s, but as the user of the instance", part(user))
	}
	c.add(j, field)
}

// programs are those that the jobs run, sorted.
func (c *crontab) programs() (programs []string) {
	for _, j := range c.Jobs {
		programs = append(programs, j.Args["program"])
	}
	slices.Sort(programs)
	return slices.Compact(programs)
}

// cut takes the first n words off a line; the schedule's are separated by one blank.
func cut(line string, n int) (words, rest string) {
	var taken []string
	for rest = strings.TrimLeft(line, " \t"); n > 0 && rest != ""; n-- {
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		taken = append(taken, rest[:end])
		rest = strings.TrimLeft(rest[end:], " \t")
	}
	return strings.Join(taken, " "), rest
}

// stdinOf separates a command from its standard input: the first % that has no backslash before it
// begins the input, others are its line breaks, and \% is a %.
func stdinOf(text string) (command string, stdin []string) {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		last := &parts[len(parts)-1]
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '%':
			*last += "%"
			i++
		case text[i] == '%':
			parts = append(parts, "")
		default:
			*last += text[i : i+1]
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return strings.TrimSpace(parts[0]), parts[1:]
}

func shellQuoted(words []string) (quoted []string) {
	for _, word := range words {
		quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return quoted
}

var (
	between    = regexp.MustCompile(`&&|\|\||[;|&\n]`)
	notInName  = regexp.MustCompile(`[^\p{L}\p{N}._-]+`)
	notProgram = regexp.MustCompile(`^(-.*|\d+(\.\d+)?[smhd]?|.*\.lock)$`) // an option, a duration, what flock locks
	// What stands before the command that a line is about, alone or with the rest of its part.
	prefixes = []string{"nice", "ionice", "exec", "sudo", "nohup", "env", "time", "timeout", "flock", "command", "chronic", "if", "then"}
	settings = []string{"cd", "test", "[", "export", "set", ".", "source", "umask", "sleep", "ulimit"}
)

// commandName is the name of a job for a command line: the program that it is about, as far as that
// can be told.
func commandName(line string) string {
	for _, piece := range between.Split(line, -1) {
		words := strings.Fields(strings.Trim(piece, " \t({"))
		for len(words) > 0 && isPrefix(words[0]) {
			words = words[1:]
		}
		if len(words) == 0 || slices.Contains(settings, words[0]) {
			continue
		}
		name := notInName.ReplaceAllString(path.Base(strings.Trim(words[0], `"'`)), "-")
		if name = strings.Trim(name, "-_. "); name != "" {
			return name
		}
	}
	return "cron"
}

func isPrefix(word string) bool {
	return slices.Contains(prefixes, path.Base(word)) || notProgram.MatchString(word) || assignment.MatchString(word)
}
