package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Kind is a kind of news about a job.
type Kind = job.NotifyKind

// The kinds of notifications.
const (
	Failed    = job.NotifyFailed
	Missed    = job.NotifyMissed
	Late      = job.NotifyLate
	Hung      = job.NotifyHung
	Recovered = job.NotifyRecovered
)

var kinds = job.NotifyKinds()

// Sender delivers messages to one place. It may be called for one message at a time.
type Sender interface {
	// Send delivers the message before ctx ends, or returns an error, which is logged: it must not
	// contain secrets. The message is sent again after an error, so a Sender must not return one after
	// it has delivered.
	Send(ctx context.Context, m Message) error
	// Most is how many items a message may have; the others follow in the next one. 0 means any
	// number: the Sender lists some and counts the rest.
	Most() int
}

// Rule says who is told what about which jobs. A job can name further targets itself: see
// job.Job.Notify.
type Rule struct {
	// Jobs is a pattern for the names of jobs, as of path.Match: "report*". Default: all jobs.
	Jobs string
	// On lists the kinds. Default: everything.
	On []Kind
	// To names the targets.
	To []string
	// After is how many runs in a row have to fail before that is told. Default 1.
	After int
}

// Config configures a Notifier. Group, and Targets or Pings, must be set; the zero value of every
// other field means its default.
type Config struct {
	// Group is the connection to ZooKeeper and the group, as of the instances.
	Group admin.Config
	// Targets are the places where messages go, by name. Names appear in ZooKeeper: a target that is
	// renamed is told about everything that is still open.
	Targets map[string]Sender
	// Rules are the group's. A job's own targets (job.Job.Notify) come beside them. Default: none.
	Rules []Rule
	// Pings tell services that raise an alarm when they stop. Default: none.
	Pings []Ping

	// ID names this sender in messages and in the election. Default: host name, process id and four
	// random characters.
	ID string
	// Gather is how long the first news for a target waits for more. Default 5 s, maximum 10 min.
	Gather time.Duration
	// Every is the least time between two messages to one target. Default 1 min, maximum 24 h. The
	// rest of a message that is too long follows at once.
	Every time.Duration
	// PingEvery is how often the Pings without a job are sent. Default 30 s, minimum 1 s, maximum 1 h.
	PingEvery time.Duration
	// Timeout limits each attempt to deliver. Default 10 s, maximum 1 min.
	Timeout time.Duration
	// Logger receives the Notifier's messages. Default: slog.Default().
	Logger *slog.Logger
}

func (cfg Config) withDefaults() Config {
	cfg.Gather = cmp.Or(cfg.Gather, 5*time.Second)
	cfg.Every = cmp.Or(cfg.Every, time.Minute)
	cfg.PingEvery = cmp.Or(cfg.PingEvery, 30*time.Second)
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	cfg.Rules = slices.Clone(cfg.Rules)
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		r.Jobs, r.After = cmp.Or(r.Jobs, "*"), max(r.After, 1)
		if len(r.On) == 0 {
			r.On = kinds
		}
	}
	return cfg
}

// refuse is the error of a field. Targets and pings have secrets: their value is left out.
func refuse(field, value string, err error) error {
	return &invalid.FieldError{Of: "notify.Config", Field: field, Value: value, Err: err}
}

// validate checks a Config that has its defaults.
func (cfg Config) validate() error {
	if err := cfg.Group.Validate(); err != nil {
		return refuse("Group", "", err)
	}
	if len(cfg.Targets) == 0 && len(cfg.Pings) == 0 {
		return refuse("Targets", "", errors.New("name at least one"))
	}
	for name, sender := range cfg.Targets {
		field := fmt.Sprintf("Targets[%q]", name)
		if err := job.CheckNodeName(name); err != nil { // a job can name it
			return refuse(field, "", fmt.Errorf("the name %w", err))
		}
		if sender == nil {
			return refuse(field, "", errors.New("is nil"))
		}
		if checked, ok := sender.(interface{ check() error }); ok {
			if err := checked.check(); err != nil {
				return refuse(field, "", err)
			}
		}
	}
	for i, rule := range cfg.Rules {
		if err := cfg.checkRule(fmt.Sprintf("Rules[%d]", i), rule); err != nil {
			return err
		}
	}
	for i, p := range cfg.Pings {
		if err := p.check(); err != nil {
			return refuse(fmt.Sprintf("Pings[%d]", i), "", err)
		}
	}
	for _, d := range []struct {
		field         string
		value         time.Duration
		atLeast, most time.Duration
	}{
		{"Gather", cfg.Gather, 0, 10 * time.Minute},
		{"Every", cfg.Every, 0, 24 * time.Hour},
		{"PingEvery", cfg.PingEvery, time.Second, time.Hour},
		{"Timeout", cfg.Timeout, time.Millisecond, time.Minute},
	} {
		if d.value < d.atLeast || d.value > d.most {
			return refuse(d.field, d.value.String(), fmt.Errorf("want %v to %v", d.atLeast, d.most))
		}
	}
	return nil
}

func (cfg Config) checkRule(field string, r Rule) error {
	if _, err := path.Match(r.Jobs, ""); err != nil {
		return refuse(field+".Jobs", r.Jobs, err)
	}
	for _, kind := range r.On {
		if err := kind.Check(); err != nil {
			return refuse(field+".On", string(kind), err)
		}
	}
	if len(r.To) == 0 {
		return refuse(field+".To", "", errors.New("name at least one target"))
	}
	for _, name := range r.To {
		if cfg.Targets[name] == nil {
			return refuse(field+".To", name, errors.New("is no target"))
		}
	}
	return nil
}

// matches reports whether a rule is about a job, or a shard of it.
func (r Rule) matches(slot string) bool {
	is, _ := path.Match(r.Jobs, zkrec.JobOfSlot(slot))
	return is
}
