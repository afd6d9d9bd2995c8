package commands

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
)

// A StoreOpener opens the store of run logs that a URL names. Its errors must not have the URL's
// password.
type StoreOpener func(address *url.URL) (runlog.Store, error)

const (
	flagStore = "store"
	envStore  = "SWCTL_STORE"
)

// stores are where run logs are kept beside files, by the scheme of their URLs.
type stores map[string]StoreOpener

// flag names a store.
func (s stores) flag(usage string) cmdline.Flag {
	return cmdline.Flag{Name: flagStore, Usage: "`URL` " + usage + ": " + strings.Join(s.forms(), ", ") + " ($" + envStore + ")"}
}

// forms are what URLs of the stores look like that are linked.
func (s stores) forms() []string {
	forms := []string{"file:DIRECTORY"}
	for _, scheme := range slices.Sorted(maps.Keys(s)) {
		forms = append(forms, scheme+":...")
	}
	return forms
}

// open opens the store that the flag or the variable names. The caller must close it.
func (s stores) open(c *cmdline.Call) (runlog.Store, error) {
	try := "--" + flagStore + " " + strings.Join(s.forms(), " or ")
	address, err := addressOf(c, flagStore, envStore, "a store of run logs", try)
	if err != nil {
		return nil, err
	}
	open := s[address.Scheme]
	if address.Scheme == "file" {
		open = openFiles
	}
	if open == nil {
		refused := cmdline.Usage("%s: this program has no stores of the kind %s", sourceOf(c, flagStore, envStore), plain.Quoted(address.Scheme))
		if len(s) == 0 {
			return nil, refused.Try("go install %s, and swctl-sql instead of swctl, which has PostgreSQL, MySQL, MariaDB and SQLite; or %s", withDatabases, try)
		}
		return nil, refused.Try("%s", try)
	}
	store, err := open(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Command, err)
	}
	return store, nil
}

// sourceOf is whether a flag has a value, or the variable in its place.
func sourceOf(c *cmdline.Call, flag, variable string) string {
	if c.Flags.IsSet(flag) {
		return "--" + flag
	}
	return variable
}

// addressOf is the URL of a flag or a variable, which alone may have a password.
func addressOf(c *cmdline.Call, flag, variable, what, try string) (*url.URL, error) {
	text, source := c.Env(variable), sourceOf(c, flag, variable)
	if source != variable {
		text = c.Flags.String(flag)
	}
	if text == "" {
		return nil, cmdline.Usage("%s needs %s", c.Command, what).Try("%s", try)
	}
	address, err := url.Parse(text)
	var query url.Values
	if err == nil {
		query, err = url.ParseQuery(address.RawQuery)
		if address.Host == "" {
			err = nil // of a file, it is part of the name
		}
	}
	if err != nil { // its error has the text, and that may have a password
		return nil, cmdline.Usage("%s is not a URL", source).Try("%s", try)
	}
	if source != variable && hasPassword(address.User, query) {
		return nil, cmdline.Usage("%s: has a password, which every user of this machine can see", source).Try("put the URL into the variable %s", variable)
	}
	return address, nil
}

// withDatabases is the program with drivers, as go install takes it.
const withDatabases = "github.com/swjobs/singleworker/cmd/swctl/swctl-sql@latest"

// hasPassword reports whether a URL holds a password: in its user, or in its query, as PostgreSQL's
// may.
func hasPassword(user *url.Userinfo, query url.Values) bool {
	_, secret := user.Password()
	for key := range query {
		secret = secret || strings.EqualFold(key, "password") || strings.EqualFold(key, "sslpassword")
	}
	return secret
}

// openFiles opens file:DIRECTORY, file:///DIRECTORY, or file:./DIRECTORY.
func openFiles(address *url.URL) (runlog.Store, error) {
	dir := address.Path
	if address.Opaque != "" {
		dir = address.Opaque
	}
	if address.Host != "" || dir == "" {
		return nil, cmdline.Usage("--%s: want file:DIRECTORY, such as file:/var/lib/swctl", flagStore)
	}
	return jsonl.Open(dir, jsonl.Options{})
}

// pastTime reads a flag that is a time, or how long ago that was.
func pastTime(c *cmdline.Call, flag string) (time.Time, error) {
	if !c.Flags.IsSet(flag) {
		return time.Time{}, nil
	}
	if d, err := job.ParseDuration(c.Flags.String(flag)); err == nil && d > 0 {
		return c.Now().Add(-d), nil
	}
	given, err := c.ClockTime(flag)
	if err != nil {
		return time.Time{}, cmdline.Usage("--%s %q: is not a time", flag, c.Flags.String(flag)).
			Try("30d, 12h, or in UTC '2006-01-02 15:04'")
	}
	return given.In(time.UTC, c.Now())
}
