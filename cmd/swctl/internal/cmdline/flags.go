package cmdline

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/singleworker/job"
)

// The flags that every command takes, and their environment variables.
const (
	FlagZK         = "zk"
	FlagServerType = "server-type"
	FlagOutput     = "output"
	FlagTime       = "time"
	FlagTimeout    = "timeout"
	FlagAuthFile   = "auth-file"
	FlagTLSCA      = "tls-ca"
	FlagTLSCert    = "tls-cert"
	FlagTLSKey     = "tls-key"

	EnvZK         = "SWCTL_ZK"
	EnvServerType = "SWCTL_SERVER_TYPE"
	EnvOutput     = "SWCTL_OUTPUT"
	EnvTime       = "SWCTL_TIME"

	DefaultZK      = "127.0.0.1:2181"
	DefaultTimeout = 10 * time.Second
)

// SharedFlags are those that every command takes. Their values are checked in settings, in the same
// way whether they come from a flag or from the environment.
func SharedFlags() []Flag {
	return []Flag{
		{Name: FlagZK, Usage: "`HOSTS` ZooKeeper servers, host:port,...[/chroot] ($SWCTL_ZK; default 127.0.0.1:2181)"},
		{Name: FlagServerType, Usage: "`NAME` the application, its Config.ServerType ($SWCTL_SERVER_TYPE)", Kind: KindServerType},
		{Name: FlagOutput, Alias: "o", Usage: "`FORMAT` table, wide, json, jsonl: one line, yaml, or name: names only ($SWCTL_OUTPUT; default table)", Values: formats},
		{Name: FlagTime, Usage: "`HOW` relative, local or utc: times for people ($SWCTL_TIME; default as each command says)", Values: times},
		{Name: FlagTimeout, Usage: "`DURATION` for the whole command, 0 for no limit (default 10s, and 1s to 3s for a server to answer at all)"},
		{Name: FlagAuthFile, Usage: "`FILE` that holds user:password for ZooKeeper, mode 0600 or 0440"},
		{Name: FlagTLSCA, Usage: "`FILE` use TLS and trust the certificates in this PEM file"},
		{Name: FlagTLSCert, Usage: "`FILE` use TLS and show this certificate (PEM)"},
		{Name: FlagTLSKey, Usage: "`FILE` private key of --tls-cert (PEM)"},
		{Name: FlagProfile, Usage: "`PROFILE` values for these flags: see swctl help config ($SWCTL_PROFILE)"},
	}
}

// Settings are the values of the shared flags, checked.
type Settings struct {
	ZK                     string
	ServerType             string // may be empty: not every command needs one
	Format                 string // of the output, one of formats
	JSON                   bool   // that is of documents for programs
	Wide                   bool   // tables with every column
	Times                  string // for people: relative, local, utc, or "" for each command's way
	Timeout                time.Duration
	Patient                bool // --timeout was given: a server that does not answer is tried for so long
	AuthFile               string
	TLSCA, TLSCert, TLSKey string
	Sources                []Setting // of all these
}

// Within bounds a context by --timeout.
func (s Settings) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.Timeout)
}

// Setting is the value of a flag that every command has.
type Setting struct {
	Flag  string `json:"flag"` // its name
	Value string `json:"value"`
	// Source is the flag, such as "--zk", a variable, such as "SWCTL_ZK", "profile" with its name, or
	// "default".
	Source string `json:"source"`
}

// NoServerType refuses a line that does not say which group it is about.
func NoServerType() error {
	return Usage("no server type given").
		Try("--server-type NAME or SWCTL_SERVER_TYPE=NAME, the Config.ServerType of the application")
}

const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatLines = "jsonl"
	formatYAML  = "yaml"
)

// FormatName is the format of names alone, one on each line.
const FormatName = "name"

// formats are the values of --output, and times of --time.
var (
	formats = []string{formatTable, formatWide, formatJSON, formatLines, formatYAML, FormatName}
	times   = []string{"relative", "local", "utc"}
)

func (a *App) settings(flags *cli.Context) (Settings, error) {
	r := reader{App: a, flags: flags}
	r.readProfile()
	format := cmp.Or(r.oneOf(FlagOutput, EnvOutput, formatTable, formats), formatTable)
	set := Settings{
		ZK:         r.text(FlagZK, EnvZK, DefaultZK),
		ServerType: r.text(FlagServerType, EnvServerType, ""),
		Format:     format,
		JSON:       format != formatTable && format != formatWide,
		Wide:       format == formatWide,
		Times:      r.oneOf(FlagTime, EnvTime, "", times),
		Timeout:    r.timeout(),
		Patient:    flags.IsSet(FlagTimeout),
		AuthFile:   r.text(FlagAuthFile, "", ""),
		TLSCA:      r.text(FlagTLSCA, "", ""),
		TLSCert:    r.text(FlagTLSCert, "", ""),
		TLSKey:     r.text(FlagTLSKey, "", ""),
	}
	set.Sources = r.sources
	return set, r.err
}

// reader reads settings and keeps the first error.
type reader struct {
	*App
	flags   *cli.Context
	name    string // of the profile, or empty
	profile profile
	sources []Setting
	err     error
}

// text is a flag's value, or its variable's, or the profile's, or the default. A profile that the
// line names and a variable that contradicts it are two groups, so the line is refused.
func (r *reader) text(flag, env, fallback string) string {
	s := Setting{flag, fallback, "default"}
	value, profiled := r.profile[flag]
	if profiled {
		s.Value, s.Source = value, "profile "+r.name
	}
	variable := ""
	if env != "" {
		variable = r.Env(env)
	}
	switch {
	case r.flags.IsSet(flag):
		s.Value, s.Source = r.flags.String(flag), dashed(flag)
	case variable == "":
	case profiled && variable != value && r.flags.IsSet(FlagProfile):
		r.fail(Usage("%s is %s, and the profile %s has %s", env, variable, r.name, value).Try("unset %s, or %s", env, dashed(flag)))
	default:
		s.Value, s.Source = variable, env
	}
	r.sources = append(r.sources, s)
	return s.Value
}

// oneOf is a text that must be one of some, or empty.
func (r *reader) oneOf(flag, env, fallback string, all []string) string {
	text := r.text(flag, env, fallback)
	if text != "" && !slices.Contains(all, text) {
		source := env
		if r.flags.IsSet(flag) {
			source = "--" + flag
		}
		r.fail(Usage("%s %q: want one of %s", source, text, strings.Join(all, ", ")))
	}
	return text
}

func (r *reader) timeout() time.Duration {
	text := r.text(FlagTimeout, "", DefaultTimeout.String())
	d, err := job.ParseDuration(text)
	if (err != nil || d < 0) && text != "" {
		r.fail(Usage("--%s %q: want a duration such as 10s or 1m30s", FlagTimeout, text))
	}
	return d
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Flag is a flag of a command.
type Flag struct {
	Name, Alias string
	// Usage is a line of help. It begins with the value's name, in backquotes. A flag without that is
	// a switch.
	Usage    string
	Repeated bool // each time counts, not only the last
	// Values are those that it can have, if they are few, and Kind is the kind of their names. They
	// complete a line. Without both the value's name tells the kind: see kinds.
	Values []string
	Kind   Kind
}

// Names are the name and the alias, if there is one.
func (f Flag) Names() []string {
	if f.Alias == "" {
		return []string{f.Name}
	}
	return []string{f.Name, f.Alias}
}

// TakesValue reports whether the flag is not a switch.
func (f Flag) TakesValue() bool { return strings.HasPrefix(f.Usage, "`") }

// help is the value's name, and the rest of the usage.
func (f Flag) help() (placeholder, usage string) {
	if !f.TakesValue() {
		return "", f.Usage
	}
	placeholder, usage, _ = strings.Cut(f.Usage[1:], "` ")
	return placeholder, usage
}

// cli is the flag for urfave/cli, which knows it by its name only: a line is sorted before.
func (f Flag) cli() cli.Flag {
	switch {
	case f.Repeated:
		return &cli.StringSliceFlag{Name: f.Name}
	case f.TakesValue():
		return &cli.StringFlag{Name: f.Name}
	}
	return &cli.BoolFlag{Name: f.Name}
}

// knownFlags indexes the flags of some commands by all their names.
func knownFlags(commands []*Command) map[string]Flag {
	flags := SharedFlags()
	for _, c := range commands {
		flags = append(flags, c.Flags...)
	}
	known := map[string]Flag{}
	for _, f := range flags {
		for _, name := range f.Names() {
			known[name] = f
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
