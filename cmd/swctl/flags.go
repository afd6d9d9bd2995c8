package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// command is one of swctl's commands: what the pre-pass, the help and
// urfave/cli need to know of it.
type command struct {
	name     string
	aliases  []string
	args     string // synopsis of the arguments
	short    string // one line for the list of commands
	long     string // more for its own help
	examples string // lines to copy and paste
	flags    []cli.Flag
	run      cli.ActionFunc
}

// allFlags are the flags of the command and those that every command takes.
func (c *command) allFlags() []cli.Flag {
	return append(slices.Clip(c.flags), sharedFlags()...)
}

func find(commands []*command, name string) *command {
	for _, c := range commands {
		if c.name == name || slices.Contains(c.aliases, name) {
			return c
		}
	}
	return nil
}

// The flags that every command takes, and their environment variables.
const (
	flagZK         = "zk"
	flagServerType = "server-type"
	flagOutput     = "output"
	flagTimeout    = "timeout"
	flagAuthFile   = "auth-file"
	flagTLSCA      = "tls-ca"
	flagTLSCert    = "tls-cert"
	flagTLSKey     = "tls-key"

	envZK         = "SWCTL_ZK"
	envServerType = "SWCTL_SERVER_TYPE"
	envOutput     = "SWCTL_OUTPUT"

	defaultZK      = "127.0.0.1:2181"
	defaultTimeout = 10 * time.Second
)

// sharedFlags are all text for urfave/cli. Their values are judged in
// settings, the same way and with the same words whether they come from a flag
// or from the environment.
func sharedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagZK, Usage: "`HOSTS` ZooKeeper servers, host:port,...[/chroot] ($SWCTL_ZK; default 127.0.0.1:2181)"},
		&cli.StringFlag{Name: flagServerType, Usage: "`NAME` the application, its Config.ServerType ($SWCTL_SERVER_TYPE)"},
		&cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Usage: "`FORMAT` table, wide or json ($SWCTL_OUTPUT; default table)"},
		&cli.StringFlag{Name: flagTimeout, Usage: "`DURATION` for the whole command, 0 for no limit (default 10s)"},
		&cli.StringFlag{Name: flagAuthFile, Usage: "`FILE` that holds user:password for ZooKeeper, mode 0600"},
		&cli.StringFlag{Name: flagTLSCA, Usage: "`FILE` use TLS and trust the certificates in this PEM file"},
		&cli.StringFlag{Name: flagTLSCert, Usage: "`FILE` use TLS and show this certificate (PEM)"},
		&cli.StringFlag{Name: flagTLSKey, Usage: "`FILE` private key of --tls-cert (PEM)"},
	}
}

// settings are the shared flags, judged.
type settings struct {
	zk         string
	serverType string // may be empty: not every command needs one
	json       bool
	wide       bool // tables with all there is
	timeout    time.Duration
	authFile   string
	tlsCA      string
	tlsCert    string
	tlsKey     string
}

func (a *app) settings(flags *cli.Context) (settings, error) {
	r := reader{app: a, flags: flags}
	format := r.format()
	set := settings{
		zk:         r.text(flagZK, envZK, defaultZK),
		serverType: r.text(flagServerType, envServerType, ""),
		json:       format == "json",
		wide:       format == "wide",
		timeout:    r.timeout(),
		authFile:   r.text(flagAuthFile, "", ""),
		tlsCA:      r.text(flagTLSCA, "", ""),
		tlsCert:    r.text(flagTLSCert, "", ""),
		tlsKey:     r.text(flagTLSKey, "", ""),
	}
	return set, r.err
}

// reader reads settings and keeps the first error.
type reader struct {
	*app
	flags *cli.Context
	err   error
}

// text is a flag's value, or its variable's, or the default.
func (r *reader) text(flag, env, fallback string) string {
	if r.flags.IsSet(flag) {
		if r.flags.String(flag) == "" {
			r.fail(emptyFlag(flag))
		}
		return r.flags.String(flag)
	}
	if env != "" && r.env(env) != "" {
		return r.env(env)
	}
	return fallback
}

func (r *reader) format() string {
	text := r.text(flagOutput, envOutput, "table")
	if !slices.Contains([]string{"table", "wide", "json", ""}, text) {
		source := "--" + flagOutput
		if !r.flags.IsSet(flagOutput) {
			source = envOutput
		}
		r.fail(usage("%s %q: want table, wide or json", source, text))
	}
	return text
}

func (r *reader) timeout() time.Duration {
	text := r.text(flagTimeout, "", defaultTimeout.String())
	d, err := time.ParseDuration(text)
	if (err != nil || d < 0) && text != "" {
		r.fail(usage("--%s %q: want a duration such as 10s or 1m30s", flagTimeout, text))
	}
	return d
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// emptyFlag refuses a flag that is given and says nothing. Most often the shell
// variable behind it is not set, and the default would be a surprise.
func emptyFlag(flag string) error {
	return usage("--%s is empty", flag).try("leave it out, or look whether a shell variable is unset")
}

// refuseEmpty is emptyFlag for those of a command's own flags that were given.
func (c *call) refuseEmpty(flags ...string) error {
	for _, flag := range flags {
		if c.flags.IsSet(flag) && c.flags.String(flag) == "" {
			return emptyFlag(flag)
		}
	}
	return nil
}

// count reads a flag that holds a number from 1 to limit.
func (c *call) count(flag string, fallback, limit int) (int, error) {
	if !c.flags.IsSet(flag) {
		return fallback, nil
	}
	text := c.flags.String(flag)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > limit {
		return 0, usage("%s %q: want a number from 1 to %d", dashed(flag), text, limit)
	}
	return n, nil
}

// pairs reads a flag that holds key=value and may be repeated.
func (c *call) pairs(flag string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, text := range c.flags.StringSlice(flag) {
		key, value, ok := strings.Cut(text, "=")
		_, twice := pairs[key]
		switch {
		case !ok || key == "":
			return nil, usage("--%s %q: want key=value", flag, text)
		case twice:
			return nil, usage("--%s: the key %q is given twice", flag, key)
		}
		pairs[key] = value
	}
	return pairs, nil
}

// flagInfo is what the pre-pass and the help need to know of a flag.
type flagInfo struct {
	name        string
	names       []string
	takesValue  bool
	placeholder string
	usage       string
}

func infoOf(f cli.Flag) flagInfo {
	info := flagInfo{name: f.Names()[0], names: f.Names()}
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return info
	}
	info.takesValue, info.usage = doc.TakesValue(), doc.GetUsage()
	if rest, found := strings.CutPrefix(info.usage, "`"); found {
		info.placeholder, info.usage, _ = strings.Cut(rest, "` ")
	}
	return info
}

// knownFlags indexes the flags of some commands by all their names.
func knownFlags(commands []*command) map[string]flagInfo {
	flags := sharedFlags()
	for _, c := range commands {
		flags = append(flags, c.flags...)
	}
	known := map[string]flagInfo{}
	for _, f := range flags {
		info := infoOf(f)
		for _, name := range info.names {
			known[name] = info
		}
	}
	return known
}

// dashed is a flag's name as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
