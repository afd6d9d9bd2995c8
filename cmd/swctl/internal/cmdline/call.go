package cmdline

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Call is one run of a command: its flags and arguments, and its output, which is printed
// when the command returns, whether or not it fails.
type Call struct {
	*App
	Settings

	Command string // its name
	Flags   *cli.Context
	Args    []string
	Out     bytes.Buffer
	notes   []string

	documents int // that were put
}

// Notef adds a remark that follows the output, on stderr.
func (c *Call) Notef(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(c.named(format), args...))
}

// Remark writes a remark to stderr at once, unless that is to be one document.
func (c *Call) Remark(text string) {
	if !c.JSON {
		c.Sayf("%s", text)
	}
}

// NoArgs refuses arguments, and says what to try.
func (c *Call) NoArgs(try string, args ...any) error {
	if len(c.Args) > 0 {
		return Usage("%s takes no arguments", c.Command).Try(try, args...)
	}
	return nil
}

// Lasts is for a command that ends when it is interrupted: no --timeout bounds it unless it was
// given.
func (c *Call) Lasts() {
	if !c.Patient {
		c.Timeout = 0
	}
}

// PutJSON renders a document in the format that -o asks for: JSON, YAML, or the names in it.
func (c *Call) PutJSON(document any) error {
	switch c.Format {
	case formatLines:
		return plain.JSON(&c.Out, "", document)
	case formatYAML, FormatName:
	default:
		return plain.JSON(&c.Out, "  ", document)
	}
	text, err := plain.Encode(document)
	if err != nil {
		return err
	}
	if c.Format == FormatName {
		named, err := output.Names(&c.Out, text)
		if err == nil && !named {
			err = Usage("-o %s: %s shows nothing that has a name", FormatName, c.Command)
		}
		return err
	}
	if c.documents++; c.documents > 1 {
		c.Out.WriteString("---\n")
	}
	return output.YAML(&c.Out, text)
}

// Flush prints the output so far, of a command that keeps running.
func (c *Call) Flush() error {
	text := c.Out.Bytes()
	c.Out.Reset()
	return c.print(text)
}

// Redraw prints the output so far of a command that prints another of the same kind later: on a
// terminal in the place of the one before, and only as much as there are rows for.
func (c *Call) Redraw() error {
	switch columns, rows, _ := c.Screen(); {
	case c.JSON:
	case columns == 0:
		c.Out.WriteByte('\n')
	default:
		lines := strings.SplitAfter(c.Out.String(), "\n") // and an empty one
		if fit := rows - 2; fit > 0 && len(lines)-1 > fit+1 {
			lines = append(lines[:fit:fit], fmt.Sprintf("and %d more lines\n", len(lines)-1-fit))
		}
		c.Out.Reset()
		c.Out.WriteString("\x1b[H\x1b[J" + strings.Join(lines, ""))
	}
	return c.Flush()
}

// action is what urfave/cli calls for a command.
func (a *App) action(cmd *Command) cli.ActionFunc {
	return func(flags *cli.Context) error {
		set, err := a.settings(flags)
		err = cmp.Or(refuseEmpty(flags, append(slices.Clip(cmd.Flags), SharedFlags()...)), err)
		if err != nil && !cmd.Lenient {
			return err
		}
		c := &Call{App: a, Settings: set, Command: cmd.Name, Flags: flags, Args: flags.Args().Slice()}
		err = cmd.Run(flags.Context, c)
		if c.Out.Len() > 0 {
			err = errors.Join(err, a.print(c.Out.Bytes()))
		}
		for _, note := range c.notes {
			a.Sayf("%s", note)
		}
		return err
	}
}

// refuseEmpty refuses a flag that is given and empty. Usually the shell variable behind it is
// unset, and the default would be a surprise.
func refuseEmpty(flags *cli.Context, of []Flag) error {
	for _, f := range of {
		if f.TakesValue() && !f.Repeated && flags.IsSet(f.Name) && flags.String(f.Name) == "" {
			return Usage("%s is empty", dashed(f.Name)).Try("leave it out, or check whether a shell variable is unset")
		}
	}
	return nil
}

// ClockTime reads a flag that is a time, if it was given.
func (c *Call) ClockTime(flag string) (ClockTime, error) {
	if !c.Flags.IsSet(flag) {
		return ClockTime{}, nil
	}
	return ParseClockTime(flag, c.Flags.String(flag))
}

// Number reads a flag that is a number from least to most.
func (c *Call) Number(flag string, fallback, least, most int) (int, error) {
	if !c.Flags.IsSet(flag) {
		return fallback, nil
	}
	text := c.Flags.String(flag)
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, Usage("%s %q: want a number from %d to %d", dashed(flag), text, least, most)
	}
	return n, nil
}

// Pairs reads a flag that is key=value and may be repeated. A key alone has the preset value,
// unless that is "".
func (c *Call) Pairs(flag, preset string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, text := range c.Flags.StringSlice(flag) {
		key, value, ok := strings.Cut(text, "=")
		if !ok && preset != "" {
			value, ok = preset, true
		}
		_, twice := pairs[key]
		switch {
		case !ok || key == "":
			return nil, Usage("--%s %q: want key=value", flag, text)
		case twice:
			return nil, Usage("--%s: the key %q is given twice", flag, key)
		}
		pairs[key] = value
	}
	return pairs, nil
}
