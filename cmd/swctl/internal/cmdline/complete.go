package cmdline

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// completeWord is how a shell asks for the values of a word: swctl __complete WORD... with the
// words of the line up to the cursor. The last one is completed, and may be empty. The answer is a
// line for each value, with a tab and a text about it. A line that begins with the tab stands for
// files, which the shell knows. Faults are silent: nobody has entered the line yet.
const completeWord = "__complete"

// completionTime is how long a person waits for it at most.
const completionTime = 200 * time.Millisecond

// Offer is a value that completes a word, and a text about it, which may be empty.
type Offer struct{ Value, About string }

// files is the offer that the shell replaces by names of files.
var files = Offer{About: "files"}

// Kind is a kind of names.
type Kind string

// The kinds. All but files and commands are App.Names' to list.
const (
	KindJob        Kind = "job"
	KindInstance   Kind = "instance"
	KindHandler    Kind = "handler"
	KindServerType Kind = "server type"

	kindFile    Kind = "file"
	kindCommand Kind = "command"
	kindTopic   Kind = "topic"
	kindProfile Kind = "profile"
)

// kinds are the kinds of values by their names in help. The NAME of an argument is a job's, of a
// flag anything's.
var kinds = map[string]Kind{
	"ID": KindInstance, "HANDLER": KindHandler, "FILE": kindFile, "DIR": kindFile, "PATH": kindFile, "COMMAND": kindCommand, "TOPIC": kindTopic,
	"PROFILE": kindProfile,
}

// complete answers for the last word of a line.
func (a *App) complete(ctx context.Context, words []string) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	last := len(words) - 1
	c := completion{App: a, Line: ParseLine(a.commands(), words[:last]), typed: words[last], ended: slices.Contains(words[:last], "--")}
	found := make(chan []Offer, 1)
	go func() { found <- c.offers(ctx) }() // which a resolver of names may hold up for longer
	var offers []Offer
	select {
	case offers = <-found:
	case <-ctx.Done():
	}
	var out bytes.Buffer
	for _, o := range offers {
		if o == files || strings.HasPrefix(o.Value, c.typed) && plain.Printable(o.Value) == o.Value {
			fmt.Fprintf(&out, "%s\t%s\n", o.Value, plain.OneLine(a.named(o.About)))
		}
	}
	_ = a.print(out.Bytes())
}

// completion is a line whose last word is being typed.
type completion struct {
	*App
	Line

	typed string
	ended bool // "--" ends the flags before it
}

func (c completion) offers(ctx context.Context) []Offer {
	name, _, glued := strings.Cut(c.typed, "=")
	switch {
	case c.Awaits != nil:
		return c.valuesOf(ctx, *c.Awaits)
	case !c.ended && glued && strings.HasPrefix(name, "--"):
		offers := c.valuesOf(ctx, c.flags()[name[2:]])
		for i, o := range offers {
			if o != files {
				offers[i].Value = name + "=" + o.Value
			}
		}
		return offers
	case !c.ended && strings.HasPrefix(c.typed, "-"):
		offers := []Offer{{"--help", "show help"}}
		flags := c.flags()
		for _, name := range slices.Sorted(maps.Keys(flags)) {
			_, usage := flags[name].help()
			offers = append(offers, Offer{dashed(name), usage})
		}
		return offers
	case c.Unknown != "":
		return nil
	case c.Command == nil:
		return c.commandsAfter("")
	case len(c.Args) == 0:
		return append(c.commandsAfter(c.Command.Name+" "), c.argument(ctx)...)
	}
	return c.argument(ctx)
}

// flags are those that the line can have, by their names.
func (c completion) flags() map[string]Flag {
	if c.Command == nil {
		return knownFlags(nil)
	}
	return knownFlags([]*Command{c.Command})
}

// commandsAfter are the next words of the commands whose names begin with some.
func (c completion) commandsAfter(first string) (offers []Offer) {
	for _, cmd := range c.commands() {
		if word, ok := strings.CutPrefix(cmd.Name, first); ok && !strings.Contains(word, " ") {
			offers = append(offers, Offer{word, cmd.Short})
		}
	}
	return offers
}

func (c completion) valuesOf(ctx context.Context, f Flag) (offers []Offer) {
	for _, value := range f.Values {
		offers = append(offers, Offer{Value: value})
	}
	kind := f.Kind
	if placeholder, _ := f.help(); kind == "" {
		kind = kinds[placeholder]
	}
	return append(offers, c.ofKind(ctx, kind)...)
}

// argument offers everything that the synopsis of the command has in the place of the next
// argument.
func (c completion) argument(ctx context.Context) (offers []Offer) {
	for alternative := range strings.SplitSeq(c.Command.Args, "|") {
		words := strings.Fields(strings.Trim(alternative, " []"))
		place := len(c.Args)
		if last := len(words) - 1; last >= 0 && strings.Contains(words[last], "...") {
			place = min(place, last)
		}
		literal := len(words) > 0 && words[0][0] != '-' && strings.ToLower(words[0]) == words[0]
		if place >= len(words) || place > 0 && literal && words[0] != c.Args[0] {
			continue
		}
		switch word := strings.Trim(words[place], "[]."); {
		case words[0] == "--":
			offers = append(offers, files) // of the command that it starts
		case words[0][0] == '-':
		case place == 0 && literal:
			offers = append(offers, Offer{Value: word})
		case word == "NAME":
			offers = append(offers, c.ofKind(ctx, KindJob)...)
		default:
			offers = append(offers, c.ofKind(ctx, kinds[word])...)
		}
	}
	return offers
}

// ofKind offers the names of a kind. It leaves out jobs that the line names already.
func (c completion) ofKind(ctx context.Context, kind Kind) []Offer {
	switch kind { //nolint:exhaustive // the others are read below
	case "":
		return nil
	case kindFile:
		return []Offer{files}
	case kindCommand:
		return c.commandsAfter("")
	case kindTopic:
		return []Offer{{Value: topicExitCodes}, {Value: topicSchedule}}
	case kindProfile:
		profiles, _ := c.profiles()
		var names []Offer
		for _, name := range slices.Sorted(maps.Keys(profiles)) {
			names = append(names, Offer{name, strings.TrimSpace(profiles[name][FlagServerType] + " " + profiles[name][FlagZK])})
		}
		return names
	}
	var names []Offer
	ask := &Command{Name: completeWord, Run: func(ctx context.Context, call *Call) (err error) {
		names, err = c.Names(ctx, call.Settings, kind)
		return err
	}}
	if c.Command != nil {
		ask.Flags = c.Command.Flags
	}
	if c.cli(ask).RunContext(ctx, Line{Command: ask, Flags: c.Line.Flags}.Normal()) != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(o Offer) bool { return kind == KindJob && slices.Contains(c.Args, o.Value) })
}
