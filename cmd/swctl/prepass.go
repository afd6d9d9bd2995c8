package main

import (
	"cmp"
	"slices"
	"strings"
)

// line is a command line, sorted. urfave/cli stops reading flags at the first
// argument (`cancel nightly --yes` would cancel without --yes) and forgets a
// flag that stands before the command when the command has it too; so the
// sorting is done here and urfave/cli gets command, flags, "--", arguments.
type line struct {
	command *command // nil when none was named
	unknown string   // what stood in its place, if that is no command
	flags   []flagValue
	args    []string
	help    bool  // -h or --help stood somewhere
	err     error // the first thing wrong with the flags
}

// flagValue is a flag as it was given, under its first name.
type flagValue struct {
	name  string
	value string
	bare  bool // a switch without a value: --yes
}

// empty reports whether nothing at all was typed.
func (l line) empty() bool {
	return l.command == nil && l.unknown == "" && len(l.flags) == 0 && l.err == nil
}

// normal is the line in the order that urfave/cli reads.
func (l line) normal() []string {
	out := []string{"swctl", l.command.name}
	for _, f := range l.flags {
		if f.bare {
			out = append(out, "--"+f.name)
		} else {
			out = append(out, "--"+f.name+"="+f.value)
		}
	}
	return append(append(out, "--"), l.args...)
}

// last is the value that counts of a flag given any number of times.
func (l line) last(name string) string {
	for _, f := range slices.Backward(l.flags) {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// parseLine sorts a command line. A token that begins with "-" is a flag
// wherever it stands, up to "--"; exceptions are "-" alone and negative
// numbers. The first other token names the command, or
// the first two do; the rest are arguments.
func parseLine(commands []*command, tokens []string) line {
	p := parser{commands: commands, known: knownFlags(commands)}
	for len(tokens) > 0 {
		token := tokens[0]
		tokens = tokens[1:]
		switch {
		case token == "--":
			for _, argument := range tokens {
				p.argument(argument)
			}
			tokens = nil
		case isFlag(token):
			tokens = p.flag(token, tokens)
		default:
			p.argument(token)
		}
	}
	p.checkFlags()
	return p.line
}

type parser struct {
	line
	commands []*command
	known    map[string]flagInfo // by each name, of all commands
}

func isFlag(token string) bool {
	return len(token) > 1 && token[0] == '-' && !strings.ContainsRune("0123456789.", rune(token[1]))
}

func (p *parser) argument(token string) {
	switch {
	case p.command != nil:
		if longer := find(p.commands, p.command.name+" "+token); longer != nil && len(p.args) == 0 {
			p.command = longer // a command of two words
			return
		}
		p.args = append(p.args, token)
	case p.unknown != "":
	default:
		if p.command = find(p.commands, token); p.command == nil {
			p.unknown = cmp.Or(token, `""`)
		}
	}
}

// flag takes one flag, and its value from rest if it needs one; it returns
// what is left. Flags may stand before the command, when it is not known yet
// whose they are, so the flags of all commands are told apart here and
// checkFlags looks whether the command has them.
func (p *parser) flag(token string, rest []string) []string {
	name, value, glued := strings.Cut(strings.TrimLeft(token, "-"), "=")
	info, ok := p.known[name]
	switch {
	case name == "h" || name == "help":
		p.help = true
		return rest
	case p.command == nil && (name == "version" || name == "V"):
		p.command = find(p.commands, "version")
		return rest
	case !ok && !strings.HasPrefix(token, "--") && p.known[token[1:2]].takesValue:
		info, value, glued = p.known[token[1:2]], token[2:], true // -ojson
	case !ok:
		p.fail(p.unknownFlag(token, name))
		return rest
	}
	if glued || !info.takesValue {
		p.flags = append(p.flags, flagValue{info.name, value, !glued})
		return rest
	}
	if len(rest) == 0 {
		p.fail(usage("%sflag %s needs a value", p.where(), token).try("%s %s", token, info.placeholder))
		return rest
	}
	if next := rest[0]; p.isKnownFlag(next) {
		p.fail(usage("%sflag %s needs a value, but %s follows", p.where(), token, next).
			try("%s %s, or %s=%s if that is the value", token, info.placeholder, token, next))
		return rest
	}
	p.flags = append(p.flags, flagValue{name: info.name, value: rest[0]})
	return rest[1:]
}

// isKnownFlag reports whether a token cannot be meant as the value of the flag
// before it: in `--server-type $UNSET --zk host` it is the next flag.
func (p *parser) isKnownFlag(token string) bool {
	if strings.HasPrefix(token, "--") {
		return true
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(token, "-"), "=")
	_, known := p.known[name]
	return isFlag(token) && (known || name == "h")
}

// checkFlags refuses flags that exist, but not for this command.
func (p *parser) checkFlags() {
	if p.command == nil {
		return
	}
	own := knownFlags([]*command{p.command})
	for _, f := range p.flags {
		if _, ok := own[f.name]; !ok {
			p.fail(usage("%s has no flag %s", p.command.name, dashed(f.name)).try("swctl %s --help", p.command.name))
		}
	}
}

func (p *parser) unknownFlag(token, name string) error {
	err := usage("%sunknown flag %s", p.where(), token)
	known := p.known
	if p.command != nil {
		known = knownFlags([]*command{p.command})
	}
	var names []string
	for candidate := range known {
		names = append(names, candidate)
	}
	if near := nearest(name, names); near != "" {
		return err.try("%s", dashed(near))
	}
	if p.command != nil {
		return err.try("swctl %s --help; an argument that begins with - goes after --", p.command.name)
	}
	return err.try("swctl help")
}

func (p *parser) where() string {
	if p.command == nil {
		return ""
	}
	return p.command.name + ": "
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}
