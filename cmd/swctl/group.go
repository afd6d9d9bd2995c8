package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// client is what swctl needs of *admin.Client.
type client interface { //nolint:interfacebloat // it stands for a whole type, so that tests can have another
	Get(ctx context.Context, name string) (admin.JobStatus, error)
	List(ctx context.Context) ([]admin.JobStatus, error)
	Instances(ctx context.Context) ([]admin.Instance, error)
	History(ctx context.Context, name string) (admin.History, error)
	Why(ctx context.Context, name string, at time.Time) (admin.Explanation, error)

	Submit(ctx context.Context, j job.Job, opts admin.SubmitOptions) (admin.Change, error)
	AwaitOwner(ctx context.Context, name string) (admin.JobStatus, error)
	Edit(ctx context.Context, name string, change func(*job.Job) error, opts admin.EditOptions) (admin.Change, error)
	Pause(ctx context.Context, name string, opts admin.PauseOptions) (admin.PauseResult, error)
	Resume(ctx context.Context, name string, opts admin.ResumeOptions) (admin.PauseResult, error)
	Cancel(ctx context.Context, name string) (admin.JobStatus, error)
	Unreadable(ctx context.Context, name string) ([]admin.UnreadableNode, error)
	Repair(ctx context.Context, name string, nodes []admin.UnreadableNode) error

	Trigger(ctx context.Context, name string, opts admin.TriggerOptions) (admin.TriggerResult, error)
	AwaitRun(ctx context.Context, name, id string) ([]admin.Entry, error)
	StopRun(ctx context.Context, name string, opts admin.StopOptions) ([]admin.Entry, error)
	Requests(ctx context.Context, name string) ([]admin.Request, error)
	CancelRequests(ctx context.Context, name, id string) ([]admin.Request, error)

	Orders(ctx context.Context) ([]admin.Order, error)
	Drain(ctx context.Context, sid string, opts admin.OrderOptions) (admin.OrderResult, error)
	Disable(ctx context.Context, sid string, opts admin.OrderOptions) (admin.OrderResult, error)
	Enable(ctx context.Context, sid string) (admin.OrderResult, error)
	AwaitDrained(ctx context.Context, sid string) (instance admin.Instance, runs bool, err error)

	Close()
}

func dialAdmin(ctx context.Context, cfg admin.Config) (client, error) {
	c, err := admin.Dial(ctx, cfg)
	if err != nil {
		return nil, err // not c: a nil *admin.Client is no nil client
	}
	return c, nil
}

// connected does one thing with a server within --timeout. What goes wrong gets
// a hint that names the flag to look at.
func (c *call) connected(ctx context.Context, do func(context.Context, client) error) error {
	cfg, err := c.adminConfig()
	if err != nil {
		return err
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	cl, err := c.dial(ctx, cfg)
	if err != nil {
		return c.explain(fmt.Errorf("connect to %s: %w", c.ZK, err))
	}
	defer cl.Close()
	return c.explain(do(ctx, cl))
}

// adminConfig turns the shared flags into a connection's configuration.
func (c *call) adminConfig() (admin.Config, error) {
	if c.ServerType == "" {
		return admin.Config{}, cmdline.Usage("no server type given").
			Try("--server-type NAME or SWCTL_SERVER_TYPE=NAME, the Config.ServerType of the application")
	}
	cfg := admin.Config{Servers: c.ZK, ServerType: c.ServerType}
	var err error
	if c.AuthFile != "" {
		if cfg.Auth, err = readAuth(c.AuthFile); err != nil {
			return admin.Config{}, err
		}
	}
	if c.TLSCA != "" || c.TLSCert != "" || c.TLSKey != "" {
		cfg.TLS, err = c.tls()
	}
	return cfg, err
}

// readAuth reads user:password from a file that only its owner can read. No
// error repeats what the file holds.
func readAuth(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", cmdline.Usage("--%s: %w", cmdline.FlagAuthFile, err)
	}
	if !info.Mode().IsRegular() {
		return "", cmdline.Usage("--%s %s: is not a regular file", cmdline.FlagAuthFile, path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return "", cmdline.Usage("--%s %s: others may read it (mode %04o)", cmdline.FlagAuthFile, path, mode).Try("chmod 600 %s", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", cmdline.Usage("--%s: %w", cmdline.FlagAuthFile, err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	user, password, ok := strings.Cut(text, ":")
	if !ok || user == "" || password == "" || strings.ContainsAny(text, "\r\n") {
		return "", cmdline.Usage("--%s %s: want one line user:password", cmdline.FlagAuthFile, path)
	}
	return text, nil
}

// tls reads the files that the TLS flags name.
func (c *call) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLSCA != "" {
		pem, err := os.ReadFile(c.TLSCA)
		if err != nil {
			return nil, cmdline.Usage("--%s: %w", cmdline.FlagTLSCA, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, cmdline.Usage("--%s %s: holds no PEM certificate", cmdline.FlagTLSCA, c.TLSCA)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, cmdline.Usage("--%s and --%s go together, only one is given", cmdline.FlagTLSCert, cmdline.FlagTLSKey)
	}
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return nil, cmdline.Usage("--%s %s, --%s %s: %w", cmdline.FlagTLSCert, c.TLSCert, cmdline.FlagTLSKey, c.TLSKey, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// explain adds a hint to what went wrong with the server, unless the command
// knew a better one.
func (c *call) explain(err error) error {
	switch {
	case err == nil || cmdline.HintOf(err) != "":
		return err
	case errors.As(err, new(*cmdline.SignalError)):
		return err // the server is not to blame
	case errors.Is(err, admin.ErrUnavailable):
		return cmdline.WithHint(err, "look whether ZooKeeper is up at %s (--zk or SWCTL_ZK)", c.ZK)
	case errors.Is(err, admin.ErrDenied):
		return cmdline.WithHint(err, "--auth-file FILE with the user:password of the application")
	case errors.Is(err, admin.ErrConflict):
		return cmdline.WithHint(err, "again; swctl list shows what became of the job")
	case errors.Is(err, context.DeadlineExceeded):
		return cmdline.WithHint(fmt.Errorf("not done within %s: %w", c.Timeout, err), "a longer --timeout")
	case errors.Is(err, admin.ErrUnreadable):
		return cmdline.WithHint(err, "swctl submit NAME SCHEDULE --replace overwrites a spec, swctl repair NAME other records; a newer swctl reads what a newer version wrote")
	case errors.Is(err, admin.ErrNoInstance):
		return cmdline.WithHint(err, "swctl instances lists those of server type %s at %s; swctl instances disable is for one that does not run", c.ServerType, c.ZK)
	case errors.Is(err, admin.ErrNoShard):
		return cmdline.WithHint(err, "swctl show NAME lists the shards of a job")
	case errors.Is(err, admin.ErrNotFound):
		return cmdline.WithHint(err, "swctl list shows the jobs of server type %s at %s", c.ServerType, c.ZK)
	}
	return refused(err)
}
