package instance

import (
	"cmp"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"time"

	"github.com/swjobs/singleworker/jobs"
	"github.com/swjobs/singleworker/singleworker"
)

// options are the command line.
type options struct {
	zk             string
	serverType     string
	id             string
	sessionTimeout time.Duration
	syncPeriod     time.Duration
	ledger         *ledger
	allowCommands  []string
	allowURLs      []string
	auth           string
	probes         string
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var opts options
	var ledgerPath string
	var work time.Duration
	flags := flag.NewFlagSet("app", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.zk, "zk", cmp.Or(os.Getenv("ZK"), "127.0.0.1:2181"), "ZooKeeper `servers`, host:port,...[/chroot] ($ZK)")
	flags.StringVar(&opts.serverType, "server-type", "demo", "`name` of the group of instances that share jobs")
	flags.StringVar(&opts.id, "id", "", "`name` of this instance (default: host, process id and four random characters)")
	flags.DurationVar(&opts.sessionTimeout, "session-timeout", 4*time.Second, "time after which the jobs of a silent instance are taken over")
	flags.DurationVar(&opts.syncPeriod, "sync-period", 0, "how often to poll, in addition to watches (default: the library's)")
	flags.StringVar(&ledgerPath, "ledger", "", "append every run as a JSON line to this `file`; instances can share it")
	flags.DurationVar(&work, "work", 0, "simulated work: how long every run waits before its handler is called")
	flags.Func("allow-command", "let jobs run this `program`, an absolute path; may be repeated (default: none)", appendTo(&opts.allowCommands))
	flags.Func("allow-url", "let jobs call URLs below this `URL`; may be repeated (default: none)", appendTo(&opts.allowURLs))
	flags.Func("auth-file", "`file` that holds user:password for ZooKeeper (default: none)", opts.readAuth)
	flags.StringVar(&opts.probes, "probes", "", "answer /livez and /readyz at this `address`, such as 127.0.0.1:8081 (default: none)")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, errors.New("unexpected argument " + flags.Arg(0) + ": see app --help")
	}
	var err error
	opts.ledger, err = openLedger(ledgerPath, work)
	return opts, err
}

// readAuth reads the credentials. They are in a file because everybody on the host can read flags.
func (o *options) readAuth(path string) error {
	text, err := os.ReadFile(path)
	o.auth = strings.TrimRight(string(text), "\r\n")
	return err
}

func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		*list = append(*list, value)
		return nil
	}
}

// handlers returns the handlers that jobs can name. command and http are included
// only with their flags: the application decides what jobs may do, not ZooKeeper.
func (o options) handlers(stdout io.Writer) (map[string]singleworker.Handler, error) {
	handlers := map[string]singleworker.Handler{
		"print-number": jobs.PrintNumber(stdout),
		"print-time":   jobs.PrintTime(stdout),
	}
	var err error
	if len(o.allowCommands) > 0 {
		handlers["command"], err = jobs.Command(jobs.CommandConfig{Allow: o.allowCommands, Output: stdout})
		if err != nil {
			return nil, err
		}
	}
	if len(o.allowURLs) > 0 {
		handlers["http"], err = jobs.HTTP(jobs.HTTPConfig{Allow: o.allowURLs})
		if err != nil {
			return nil, err
		}
	}
	return handlers, nil
}
