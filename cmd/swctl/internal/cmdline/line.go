package cmdline

import (
	"cmp"
	"slices"
	"strings"
)

// Line is a command line, sorted. urfave/cli stops reading flags at the first
// argument (`cancel nightly --yes` would cancel without --yes) and forgets a
// flag that stands before the command when the command has it too; so the
// sorting is done here and urfave/cli gets command, flags, "--", arguments.
type Line struct {
	Command *Command // nil when none was named
	Unknown string   // what stood in its place, if that is no command
	Flags   []FlagValue
	Args    []string
	Help    bool  // -h or --help stood somewhere
	Err     error // the first thing wrong with the flags
	Awaits  *Flag // the flag at the end, whose value is missing
}

// FlagValue is a flag as it was given, under its first name.
type FlagValue struct {
	Name  string
	Value string
	Bare  bool // a switch without a value: --yes
}

// empty reports whether nothing at all was typed.
func (l Line) empty() bool {
	return l.Command == nil && l.Unknown == "" && len(l.Flags) == 0 && l.Err == nil
}

// Normal is the line in the order that urfave/cli reads.
func (l Line) Normal() []string {
	out := []string{"swctl", l.Command.Name}
	for _, f := range l.Flags {
		if f.Bare {
			out = append(out, "--"+f.Name)
		} else {
			out = append(out, "--"+f.Name+"="+f.Value)
		}
	}
	return append(append(out, "--"), l.Args...)
}

// last is the value that counts of a flag given any number of times.
func (l Line) last(name string) string {
	for _, f := range slices.Backward(l.Flags) {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// ParseLine sorts a command line. A token that begins with "-" is a flag
// wherever it stands, up to "--"; exceptions are "-" alone and negative
// numbers. The first other token names the command, or
// the first two do; the rest are arguments.
func ParseLine(commands []*Command, tokens []string) Line {
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
	return p.Line
}

type parser struct {
	Line
	commands []*Command
	known    map[string]Flag // by each name, of all commands
}

func isFlag(token string) bool {
	return len(token) > 1 && token[0] == '-' && !strings.ContainsRune("0123456789.", rune(token[1]))
}

func (p *parser) argument(token string) {
	switch {
	case p.Command != nil:
		if longer := find(p.commands, p.Command.Name+" "+token); longer != nil && len(p.Args) == 0 {
			p.Command = longer // a command of two words
			return
		}
		p.Args = append(p.Args, token)
	case p.Unknown != "":
	default:
		if p.Command = find(p.commands, token); p.Command == nil {
			p.Unknown = cmp.Or(token, `""`)
		}
	}
}

// flag takes one flag, and its value from rest if it needs one. It returns the remainder. Flags may
// stand before the command, when it is not known yet whose they are, so the flags of all commands
// are told apart here and checkFlags looks whether the command has them.
func (p *parser) flag(token string, rest []string) []string {
	name, value, glued := strings.Cut(strings.TrimLeft(token, "-"), "=")
	flag, ok := p.known[name]
	switch {
	case name == "h" || name == "help":
		p.Help = true
		return rest
	case p.Command == nil && (name == "version" || name == "V"):
		p.Command = find(p.commands, "version")
		return rest
	case !ok && !strings.HasPrefix(token, "--") && p.known[token[1:2]].TakesValue():
		flag, value, glued = p.known[token[1:2]], token[2:], true // -ojson
	case !ok:
		p.fail(p.unknownFlag(token, name))
		return rest
	}
	placeholder, _ := flag.help()
	if glued || !flag.TakesValue() {
		p.Flags = append(p.Flags, FlagValue{flag.Name, value, !glued})
		return rest
	}
	if len(rest) == 0 {
		p.Awaits = &flag
		p.fail(Usage("%sflag %s needs a value", p.where(), token).Try("%s %s", token, placeholder))
		return rest
	}
	if next := rest[0]; p.isKnownFlag(next) {
		p.fail(Usage("%sflag %s needs a value, but %s follows", p.where(), token, next).
			Try("%s %s, or %s=%s if that is the value", token, placeholder, token, next))
		return rest
	}
	p.Flags = append(p.Flags, FlagValue{Name: flag.Name, Value: rest[0]})
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
	if p.Command == nil {
		return
	}
	own := knownFlags([]*Command{p.Command})
	for _, f := range p.Flags {
		if _, ok := own[f.Name]; !ok {
			p.fail(Usage("%s has no flag %s", p.Command.Name, dashed(f.Name)).Try("swctl %s --help", p.Command.Name))
		}
	}
}

func (p *parser) unknownFlag(token, name string) error {
	err := Usage("%sunknown flag %s", p.where(), token)
	known := p.known
	if p.Command != nil {
		known = knownFlags([]*Command{p.Command})
	}
	var names []string
	for candidate := range known {
		names = append(names, candidate)
	}
	if near := Nearest(name, names); near != "" {
		return err.Try("%s", dashed(near))
	}
	if p.Command != nil {
		return err.Try("swctl %s --help; an argument that begins with - goes after --", p.Command.Name)
	}
	return err.Try("swctl help")
}

func (p *parser) where() string {
	if p.Command == nil {
		return ""
	}
	return p.Command.Name + ": "
}

func (p *parser) fail(err error) {
	if p.Err == nil {
		p.Err = err
	}
}
