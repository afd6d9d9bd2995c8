package singleworker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
)

// valid is a Config with all required fields.
func valid() Config { return Config{Servers: "zk1:2181", ServerType: "billing"} }

func TestNewChecksEveryFieldAndRelation(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		field  string
		change func(*Config)
		want   string
	}{
		{"Servers", func(c *Config) { c.Servers = "" }, `Servers "": has an empty address, want "host:port,host:port/chroot"`},
		{"Servers", func(c *Config) { c.Servers = "zk1:0" }, `Servers "zk1:0": address "zk1:0": port "0" is not between 1 and 65535`},
		{"Servers", func(c *Config) { c.Servers, c.TLS = "file:/data", new(tls.Config) }, `Servers "file:/data": is a socket of this machine, without TLS: leave TLS out, or name the server by host:port`},
		{"Servers", func(c *Config) { c.Servers = "zk1/a//b" }, `Servers "zk1/a//b": chroot "/a//b": "" is not a valid node name`},
		{"ServerType", func(c *Config) { c.ServerType = "" }, `ServerType "": is empty`},
		{"ServerType", func(c *Config) { c.ServerType = "a/b" }, `ServerType "a/b": contains '/', want printable characters without '/'`},
		{"ServerType", func(c *Config) { c.ServerType = "zookeeper" }, `ServerType "zookeeper": is ZooKeeper's own node`},
		{"InstanceID", func(c *Config) { c.InstanceID = "_1" }, `InstanceID "_1": begins with "_", which is reserved`},
		{"Version", func(c *Config) { c.Version = "3f9c2ab" },
			`Version "3f9c2ab": want numbers such as "1.4.0", "v2" or "20261122.3", perhaps with "-rc.1" or "+build": a version is compared with others`},
		{"Auth", func(c *Config) { c.Auth = "hunter2" }, `Auth "(not shown)": is not of the form "user:password"`},
		{"ACL", func(c *Config) { c.ACL = "world" }, `ACL "world": entry "world" is not "scheme:id:perms"`},
		{"ACL", func(c *Config) { c.ACL = "auth::r" }, `ACL "auth::r": entry "auth::r" needs Auth`},
		{"Mode", func(c *Config) { c.Mode = "leader" }, `Mode "leader": is not known, want lease or latch`},
		{"ServerType", func(c *Config) { c.ServerType = "_-default_" }, `ServerType "_-default_": begins with "_", which is reserved`},
		{"LatchPath", func(c *Config) { c.LatchPath = "/lead" }, `LatchPath "/lead": is of no use with Mode lease, want latch`},
		{"LatchPath", latchAt("lead"), `LatchPath "lead": want an absolute path below the root, such as "/billing/leader"`},
		{"LatchPath", latchAt("/zookeeper/lead"), `LatchPath "/zookeeper/lead": is reserved by ZooKeeper; choose another path`},
		{"LatchPath", latchAt("/billing/lead"), `LatchPath "/billing/lead": want a path outside /billing, where the group's jobs are`},
		{"LatchPath", latchAt("/billing"), `LatchPath "/billing": want a path outside /billing, where the group's jobs are`},
		{"SessionTimeout", func(c *Config) { c.SessionTimeout = time.Second - 1 }, `SessionTimeout "999.999999ms": want at least 1s`},
		{"SessionTimeout", func(c *Config) { c.SessionTimeout = time.Hour + 1 }, `SessionTimeout "1h0m0.000000001s": want at most 1h0m0s`},
		{"SessionTimeout", func(c *Config) { c.SessionTimeout = -time.Second }, `SessionTimeout "-1s": want at least 1s`},
		{"SyncPeriod", func(c *Config) { c.SyncPeriod = 49 * time.Millisecond }, `SyncPeriod "49ms": want at least 50ms`},
		{"HeartbeatPeriod", func(c *Config) { c.HeartbeatPeriod = -time.Second }, `HeartbeatPeriod "-1s": want at least 50ms`},
		{"SyncPeriod", func(c *Config) { c.SyncPeriod = 11 * time.Second },
			`SyncPeriod "11s": is longer than SessionTimeout 10s: a hung instance would be noticed later than a dead one`},
		{"SyncPeriod", func(c *Config) { c.SessionTimeout, c.SyncPeriod = 2*time.Second, 3*time.Second },
			`SyncPeriod "3s": is longer than SessionTimeout 2s: a hung instance would be noticed later than a dead one`},
		{"MaxClockOffset", func(c *Config) { c.MaxClockOffset = time.Second - 1 }, `MaxClockOffset "999.999999ms": want at least 1s`},
		{"MaxClockOffset", func(c *Config) { c.MaxClockOffset = -time.Second }, `MaxClockOffset "-1s": want at least 1s`},
		{"StopGrace", func(c *Config) { c.StopGrace = -2 }, `StopGrace "-2ns": want at least 0s`},
		{"StartupDelay", func(c *Config) { c.StartupDelay = -1 }, `StartupDelay "-1ns": want at least 0s`},
		{"StartupDelay", func(c *Config) { c.StartupDelay = time.Hour + 1 }, `StartupDelay "1h0m0.000000001s": want at most 1h0m0s`},
		{"Weight", func(c *Config) { c.Weight = -1 }, `Weight "-1": want 1 to 1000; to own nothing, disable the instance or register no handlers`},
		{"Weight", func(c *Config) { c.Weight = 1001 }, `Weight "1001": want 1 to 1000; to own nothing, disable the instance or register no handlers`},
		{"MaxSlots", func(c *Config) { c.MaxSlots = -1 }, `MaxSlots "-1": want 0 for no limit, or a positive number`},
		{"MaxRunning", func(c *Config) { c.MaxRunning = -1 }, `MaxRunning "-1": want 0 for no limit, or a positive number`},
		{"HistorySize", func(c *Config) { c.HistorySize = 19 }, `HistorySize "19": want 20 to 200`},
		{"HistorySize", func(c *Config) { c.HistorySize = 201 }, `HistorySize "201": want 20 to 200`},
		{"Labels", func(c *Config) { c.Labels = map[string]string{"a b": "x"} },
			`Labels "map[a b:x]": a b=x has a key with other characters than letters, digits and "-_./"`},
		{"Address", func(c *Config) { c.Address = "http://a\n" }, `Address "http://a\n": contains '\n', want printable characters`},
		{"Address", func(c *Config) { c.Address = strings.Repeat("x", 256) },
			`Address "` + strings.Repeat("x", 256) + `": has 256 bytes, at most 255 are allowed`},
	} {
		cfg := valid()
		row.change(&cfg)
		_, err := New(cfg)
		var refused *invalid.FieldError
		if !errors.As(err, &refused) || refused.Field != row.field || err.Error() != "singleworker.Config."+row.want {
			t.Errorf("%v\nwant an *invalid.FieldError: singleworker.Config.%s", err, row.want)
		}
	}
}

func latchAt(path string) func(c *Config) {
	return func(c *Config) { c.Mode, c.LatchPath = LatchMode, path }
}

// The tree of the published sample's one-argument constructor can be opened.
func TestServerTypeOfTheSample(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.ServerType = "_-default-_"
	if _, err := New(cfg); err != nil {
		t.Error(err)
	}
}

// TestNoFieldIsForgotten fails when a field is added to Config: decide what New must
// refuse, and add it to the tests of this file.
func TestNoFieldIsForgotten(t *testing.T) {
	t.Parallel()
	checked := strings.Fields("Servers ServerType InstanceID Version Auth ACL Mode LatchPath SessionTimeout SyncPeriod HeartbeatPeriod ClaimGrace HistorySize MaxClockOffset StopGrace StartupDelay MaxSlots MaxRunning Weight Labels Address")
	anything := strings.Fields("TLS Dial Logger Hooks Middleware Resolve")
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if !slices.Contains(checked, field.Name) && !slices.Contains(anything, field.Name) {
			t.Errorf("no test says what Config.%s may be", field.Name)
		}
	}
}

func TestNewTakesTheLimits(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*Config){
		"as little as possible": func(*Config) {},
		"labels": func(c *Config) {
			c.Labels = map[string]string{"zone": "a"}
			for i := range 15 {
				c.Labels[strings.Repeat("k", i+1)] = ""
			}
		},
		"latch mode":         func(c *Config) { c.Mode = LatchMode },
		"the least timeout":  func(c *Config) { c.SessionTimeout = time.Second },
		"the least period":   func(c *Config) { c.SyncPeriod = 50 * time.Millisecond },
		"the longest period": func(c *Config) { c.SessionTimeout, c.SyncPeriod = 4*time.Second, 4*time.Second },
		"the least grace":    func(c *Config) { c.StopGrace = 1 },
		"credentials": func(c *Config) {
			c.Auth, c.ACL = "app:secret", "auth::cdrwa,world:anyone:r"
		},
		"a chroot, three servers": func(c *Config) { c.Servers = "zk1,zk2:2182,[::1]:2183/prod/team" },
	} {
		cfg := valid()
		change(&cfg)
		if _, err := New(cfg); err != nil {
			t.Errorf("%s: %v, want a Manager", what, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	m, err := New(valid())
	if err != nil {
		t.Fatal(err)
	}
	got := m.cfg
	if got.SessionTimeout != 10*time.Second || got.SyncPeriod != 3*time.Second || got.StopGrace != 30*time.Second ||
		got.MaxSlots != 0 || got.MaxRunning != 0 || got.Weight != 1 || got.Mode != LeaseMode || got.Logger == nil || got.Auth != "" || got.ACL != "" || got.TLS != nil {
		t.Errorf("defaults %+v", got)
	}

	short := valid()
	short.SessionTimeout = 2 * time.Second
	if m, err = New(short); err != nil || m.cfg.SyncPeriod != 2*time.Second {
		t.Errorf("with a session timeout of 2s: sync period %v, %v; want 2s", m.cfg.SyncPeriod, err)
	}
}

func TestInstanceID(t *testing.T) {
	t.Parallel()
	given := valid()
	given.InstanceID = "billing-7"
	if m, err := New(given); err != nil || m.InstanceID() != "billing-7" {
		t.Errorf("given: %v, %v; want billing-7", m.InstanceID(), err)
	}

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(fmt.Sprintf(`^%s-%d-[0-9a-f]{4}$`, regexp.QuoteMeta(host), os.Getpid()))
	ids := make(map[string]bool)
	for range 10 {
		m, err := New(valid())
		if err != nil || !form.MatchString(m.InstanceID()) {
			t.Fatalf("generated: %v, %v; want host, process id and four characters", m, err)
		}
		ids[m.InstanceID()] = true
	}
	if len(ids) == 1 {
		t.Errorf("ten managers have the id %v", ids)
	}
}

// recorder keeps log records as text, with durations as JSON has them: in nanoseconds.
type recorder struct {
	slog.Handler
	text *strings.Builder
}

func record(level slog.Level) recorder {
	text := new(strings.Builder)
	return recorder{slog.NewTextHandler(text, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch {
			case a.Key == slog.TimeKey:
				return slog.Attr{}
			case a.Value.Kind() == slog.KindDuration:
				return slog.Int64(a.Key, int64(a.Value.Duration()))
			}
			return a
		},
	}), text}
}

func TestDefaultLoggerPassesOnWarningsAndErrors(t *testing.T) {
	t.Parallel()
	program := record(slog.LevelDebug)
	log := slog.New(warnings{program})
	log.Debug("d")
	log.Info("i")
	log.Warn("w")
	log.With("a", 1).WithGroup("g").Info("i2")
	log.With("a", 1).WithGroup("g").Error("e", "b", 2)
	if got, want := program.text.String(), "level=WARN msg=w\nlevel=ERROR msg=e a=1 g.b=2\n"; got != want {
		t.Errorf("logged\n%swant\n%s", got, want)
	}

	handlers := Config{Logger: log}.handlersLogger()
	program.text.Reset()
	handlers.Info("a handler's")
	if got, want := program.text.String(), "level=INFO msg=\"a handler's\"\n"; got != want {
		t.Errorf("a handler logged %q, want %q", got, want)
	}

	quiet := record(slog.LevelError) // what the program does not want stays away
	slog.New(warnings{quiet}).Warn("w")
	if got := quiet.text.String(); got != "" {
		t.Errorf("logged %q, want nothing", got)
	}
}

// Nothing that prints a Config prints the password.
func TestConfigHidesAuth(t *testing.T) {
	t.Parallel()
	cfg := Config{Servers: "zk1:2181", Auth: "ops:hunter2"}
	var printed strings.Builder
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&printed, format+format, cfg, &cfg)
		fmt.Fprintf(&printed, format, struct{ Config Config }{cfg})
	}
	slog.New(slog.NewTextHandler(&printed, nil)).Info("text", "cfg", cfg, "p", &cfg)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("json", "cfg", cfg, "p", &cfg)
	if text := printed.String(); strings.Contains(text, "hunter2") || strings.Count(text, "zk1:2181") != 19 || strings.Count(text, "(not shown)") != 19 {
		t.Error(text)
	}
}
