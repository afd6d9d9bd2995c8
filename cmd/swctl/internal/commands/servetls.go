package commands

import (
	"crypto/tls"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
)

const flagTLSClientCA = "tls-client-ca"

// tlsFiles are the certificates of a server. They are looked at for each connection, and read again
// when they have changed, because certificates are renewed and their owners restart nothing.
type tlsFiles struct {
	cert, key, clientCA string // paths; clientCA may be empty
	logger              *slog.Logger

	mu      sync.Mutex
	read    *tls.Config   // the last that could be read
	when    []os.FileInfo // of its files
	trouble string        // with the files of now, as it was logged
}

// serveTLS returns the TLS of a server by its flags, or nil.
func serveTLS(c *cmdline.Call, logger *slog.Logger) (cfg *tls.Config, err error) {
	f := &tlsFiles{
		cert: c.Flags.String(cmdline.FlagTLSCert), key: c.Flags.String(cmdline.FlagTLSKey), clientCA: c.Flags.String(flagTLSClientCA), logger: logger,
	}
	switch {
	case c.Flags.IsSet(cmdline.FlagTLSCA):
		return nil, cmdline.Usage("serve: clients check a server with --%s, and it checks them with --%s", cmdline.FlagTLSCA, flagTLSClientCA).
			Try("swctl serve --%s FILE", flagTLSClientCA)
	case f.cert == "" && f.key == "" && f.clientCA == "":
		return cfg, nil
	}
	f.when = f.stat()
	if f.read, err = f.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.now(), nil },
	}, nil
}

func (f *tlsFiles) load() (cfg *tls.Config, err error) {
	cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.Certificates, err = group.ReadCertificate(f.cert, f.key); err != nil || f.clientCA == "" {
		return cfg, err
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	cfg.ClientCAs, err = group.ReadCAs(flagTLSClientCA, f.clientCA)
	return cfg, err
}

// stat looks at the files. Of one that is not there it has nil.
func (f *tlsFiles) stat() (all []os.FileInfo) {
	for _, path := range []string{f.cert, f.key, f.clientCA} {
		info, _ := os.Stat(path)
		all = append(all, info)
	}
	return all
}

// now returns the configuration by the files of now, or if those cannot be read, as while somebody
// writes them, by the last that could.
func (f *tlsFiles) now() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	when := f.stat()
	if slices.EqualFunc(when, f.when, isSameFile) {
		return f.read
	}
	cfg, err := f.load()
	if err != nil {
		if err.Error() != f.trouble {
			f.logger.Warn("the certificates have changed and cannot be used: those of before stay", "err", err)
		}
		f.trouble = err.Error()
		return f.read
	}
	f.logger.Info("the certificates have changed: new connections use them", "cert", f.cert)
	f.read, f.when, f.trouble = cfg, when, ""
	return cfg
}

func isSameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
