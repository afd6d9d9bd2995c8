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

	"github.com/swjobs/singleworker/singleworker/admin"
)

// client is what swctl needs of *admin.Client.
type client interface {
	teller
	changer
	asker
	orderer
	Close()
}

// An orderer tells instances to own nothing, or that they may again.
type orderer interface {
	Orders(ctx context.Context) ([]admin.Order, error)
	Drain(ctx context.Context, sid string, opts admin.OrderOptions) (admin.OrderResult, error)
	Disable(ctx context.Context, sid string, opts admin.OrderOptions) (admin.OrderResult, error)
	Enable(ctx context.Context, sid string) (admin.OrderResult, error)
	AwaitDrained(ctx context.Context, sid string) (instance admin.Instance, runs bool, err error)
}

// A teller tells of jobs and instances.
type teller interface {
	Get(ctx context.Context, name string) (admin.JobStatus, error)
	List(ctx context.Context) ([]admin.JobStatus, error)
	Instances(ctx context.Context) ([]admin.Instance, error)
	History(ctx context.Context, name string) (admin.History, error)
	Why(ctx context.Context, name string, at time.Time) (admin.Explanation, error)
}

// A changer changes jobs.
type changer interface {
	Submit(ctx context.Context, job admin.Job, opts admin.SubmitOptions) (admin.SubmitResult, error)
	AwaitOwner(ctx context.Context, name string) (admin.JobStatus, error)
	Set(ctx context.Context, name string, changes admin.Changes, opts admin.SetOptions) (admin.SubmitResult, error)
	Pause(ctx context.Context, name string, opts admin.PauseOptions) (admin.PauseResult, error)
	Resume(ctx context.Context, name string, opts admin.ResumeOptions) (admin.PauseResult, error)
	Cancel(ctx context.Context, name string) (admin.JobStatus, error)
}

// An asker asks the owners of jobs for something.
type asker interface {
	Trigger(ctx context.Context, name string, opts admin.TriggerOptions) (admin.TriggerResult, error)
	AwaitRun(ctx context.Context, name, id string) ([]admin.Entry, error)
	StopRun(ctx context.Context, name string, opts admin.StopOptions) ([]admin.Entry, error)
	Requests(ctx context.Context, name string) ([]admin.Request, error)
	Withdraw(ctx context.Context, name, id string) ([]admin.Request, error)
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
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	cl, err := c.dial(ctx, cfg)
	if err != nil {
		return c.explain(fmt.Errorf("connect to %s: %w", c.zk, err))
	}
	defer cl.Close()
	return c.explain(do(ctx, cl))
}

// adminConfig turns the shared flags into a connection's configuration.
func (c *call) adminConfig() (admin.Config, error) {
	if c.serverType == "" {
		return admin.Config{}, usage("no server type given").
			try("--server-type NAME or SWCTL_SERVER_TYPE=NAME, the Config.ServerType of the application")
	}
	cfg := admin.Config{Servers: c.zk, ServerType: c.serverType}
	var err error
	if c.authFile != "" {
		if cfg.Auth, err = readAuth(c.authFile); err != nil {
			return admin.Config{}, err
		}
	}
	if c.tlsCA != "" || c.tlsCert != "" || c.tlsKey != "" {
		cfg.TLS, err = c.tls()
	}
	return cfg, err
}

// readAuth reads user:password from a file that only its owner can read. No
// error repeats what the file holds.
func readAuth(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", usage("--%s: %w", flagAuthFile, err)
	}
	if !info.Mode().IsRegular() {
		return "", usage("--%s %s: is not a regular file", flagAuthFile, path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return "", usage("--%s %s: others may read it (mode %04o)", flagAuthFile, path, mode).try("chmod 600 %s", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", usage("--%s: %w", flagAuthFile, err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	user, password, ok := strings.Cut(text, ":")
	if !ok || user == "" || password == "" || strings.ContainsAny(text, "\r\n") {
		return "", usage("--%s %s: want one line user:password", flagAuthFile, path)
	}
	return text, nil
}

// tls reads the files that the TLS flags name.
func (c *call) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err != nil {
			return nil, usage("--%s: %w", flagTLSCA, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--%s %s: holds no PEM certificate", flagTLSCA, c.tlsCA)
		}
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return nil, usage("--%s and --%s go together, only one is given", flagTLSCert, flagTLSKey)
	}
	if c.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey)
		if err != nil {
			return nil, usage("--%s %s, --%s %s: %w", flagTLSCert, c.tlsCert, flagTLSKey, c.tlsKey, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// explain adds a hint to what went wrong with the server, unless the command
// knew a better one.
func (c *call) explain(err error) error {
	switch {
	case err == nil || hintOf(err) != "":
		return err
	case errors.As(err, new(*signalError)):
		return err // the server is not to blame
	case errors.Is(err, admin.ErrUnavailable):
		return withHint(err, "look whether ZooKeeper is up at %s (--zk or SWCTL_ZK)", c.zk)
	case errors.Is(err, admin.ErrDenied):
		return withHint(err, "--auth-file FILE with the user:password of the application")
	case errors.Is(err, admin.ErrConflict):
		return withHint(err, "again; swctl list shows what became of the job")
	case errors.Is(err, context.DeadlineExceeded):
		return withHint(fmt.Errorf("not done within %s: %w", c.timeout, err), "a longer --timeout")
	case errors.Is(err, admin.ErrUnreadable):
		return withHint(err, "swctl submit NAME SCHEDULE --replace writes it anew; a newer swctl reads what a newer version wrote")
	case errors.Is(err, admin.ErrNoInstance):
		return withHint(err, "swctl instances lists those of server type %s at %s; swctl instances disable is for one that does not run", c.serverType, c.zk)
	case errors.Is(err, admin.ErrNoShard):
		return withHint(err, "swctl show NAME lists the shards of a job")
	case errors.Is(err, admin.ErrNotFound):
		return withHint(err, "swctl list shows the jobs of server type %s at %s", c.serverType, c.zk)
	}
	return refused(err)
}
