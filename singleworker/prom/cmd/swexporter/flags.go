package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/prom/group"
)

// defaultListen is reached from this machine alone.
const defaultListen = "127.0.0.1:9468"

// settings are from the command line.
type settings struct {
	listen  string
	options group.Options
	zk      admin.Config

	authFile, caFile, certFile, keyFile string
}

// parse reads the command line, and environment variables in its place. It prints errors and help
// to stderr.
func parse(args []string, getenv func(string) string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("swexporter", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.zk.Servers, "zk", getenv("SWCTL_ZK"), "ZooKeeper's `servers`, host:port,host:port/chroot; or SWCTL_ZK")
	flags.StringVar(&s.zk.ServerType, "server-type", getenv("SWCTL_SERVER_TYPE"), "`name` of the group, the application's Config.ServerType; or SWCTL_SERVER_TYPE")
	flags.StringVar(&s.authFile, "auth-file", getenv("SWCTL_AUTH_FILE"), "`file` with user:password for ZooKeeper; or SWCTL_AUTH_FILE")
	flags.StringVar(&s.caFile, "tls-ca", "", "`file` with the certificates that ZooKeeper's are checked with; turns on TLS")
	flags.StringVar(&s.certFile, "tls-cert", "", "`file` with the client's certificate")
	flags.StringVar(&s.keyFile, "tls-key", "", "`file` with its key")
	flags.StringVar(&s.listen, "listen", defaultListen, "`address` to listen on; anyone who reaches it can read the names and states of jobs")
	flags.DurationVar(&s.options.Interval, "interval", group.DefaultInterval, "how often the group is read at most, however often this is scraped")
	flags.DurationVar(&s.options.Timeout, "timeout", group.DefaultTimeout, "limit of a reading; less than that of the scrape")
	flags.IntVar(&s.options.MaxJobs, "max-jobs", group.DefaultMaxJobs, "how many jobs have series")
	if err := flags.Parse(args); err != nil {
		return s, err // was printed
	}
	err := s.check(flags.Args())
	if err != nil {
		fmt.Fprintf(stderr, "swexporter: %v; swexporter -h lists the flags\n", err)
	}
	return s, err
}

// check checks the settings and reads the files.
func (s *settings) check(rest []string) (err error) {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case s.zk.Servers == "":
		return errors.New("-zk or SWCTL_ZK is missing")
	case s.zk.ServerType == "":
		return errors.New("-server-type or SWCTL_SERVER_TYPE is missing")
	case s.options.Interval <= 0 || s.options.Timeout <= 0:
		return errors.New("-interval and -timeout must be positive")
	}
	if s.authFile != "" {
		if s.zk.Auth, err = readAuth(s.authFile); err != nil {
			return err
		}
	}
	if s.caFile != "" || s.certFile != "" || s.keyFile != "" {
		if s.zk.TLS, err = s.readTLS(); err != nil {
			return err
		}
	}
	return s.zk.Validate()
}

// readAuth reads user:password. No error repeats the file's content.
func readAuth(path string) (string, error) {
	if err := checkSecret(path); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	user, password, ok := strings.Cut(text, ":")
	if !ok || user == "" || password == "" || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("-auth-file %s: want one line user:password", path)
	}
	return text, nil
}

// checkSecret refuses a file with a secret that others than its owner and its group may read.
func checkSecret(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o037 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%s: others may read or change it (mode %04o), or it is not a regular file; chmod 600 %s", path, mode.Perm(), path)
	}
	return nil
}

func (s *settings) readTLS() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.caFile != "" {
		pem, err := os.ReadFile(s.caFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("-tls-ca %s: holds no PEM certificate", s.caFile)
		}
	}
	if (s.certFile == "") != (s.keyFile == "") {
		return nil, errors.New("-tls-cert and -tls-key go together")
	}
	if s.certFile != "" {
		if err := checkSecret(s.keyFile); err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
