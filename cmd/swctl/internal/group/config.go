package group

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// Config turns the shared flags into a connection's configuration, and reads the files that
// they name.
func Config(set cmdline.Settings) (admin.Config, error) {
	if set.ServerType == "" {
		return admin.Config{}, cmdline.NoServerType()
	}
	cfg := admin.Config{Servers: set.ZK, ServerType: set.ServerType}
	var err error
	if set.AuthFile != "" {
		if cfg.Auth, err = readAuth(set.AuthFile); err != nil {
			return admin.Config{}, err
		}
	}
	if set.TLSCA != "" || set.TLSCert != "" || set.TLSKey != "" {
		cfg.TLS, err = readTLS(set)
	}
	return cfg, err
}

// readAuth reads user:password from a file that only its owner can read. No error repeats the
// file's content.
func readAuth(path string) (string, error) {
	text, err := ReadSecret(cmdline.FlagAuthFile, path)
	if err != nil {
		return "", err
	}
	user, password, ok := strings.Cut(text, ":")
	if !ok || user == "" || password == "" || strings.ContainsAny(text, "\r\n") {
		return "", cmdline.Usage("--%s %s: want one line user:password", cmdline.FlagAuthFile, path)
	}
	return text, nil
}

// maxSecret is how long a file with a secret may be.
const maxSecret = 1 << 20

// ReadSecret reads a file that only its owner, or its group, can read, without the end of its last
// line. flag names the file, directly or not. No error repeats the file's content.
func ReadSecret(flag, path string) (string, error) {
	if err := checkSecret(flag, path); err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", cmdline.Usage("--%s: %w", flag, err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err == nil && len(data) > maxSecret {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxSecret)
	}
	if err != nil {
		return "", cmdline.Usage("--%s: %w", flag, err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// checkSecret refuses a file with a secret that others may read.
func checkSecret(flag, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return cmdline.Usage("--%s: %w", flag, err)
	}
	if !info.Mode().IsRegular() {
		return cmdline.Usage("--%s %s: is not a regular file", flag, path)
	}
	// Its group may read it: so Kubernetes mounts secrets for pods that do not run as root.
	if mode := info.Mode().Perm(); mode&0o037 != 0 && runtime.GOOS != "windows" {
		return cmdline.Usage("--%s %s: others may read or change it (mode %04o)", flag, path, mode).Try("chmod 600 %s", path)
	}
	return nil
}

// readTLS reads the files that the TLS flags name.
func readTLS(set cmdline.Settings) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if set.TLSCA != "" {
		if cfg.RootCAs, err = ReadCAs(cmdline.FlagTLSCA, set.TLSCA); err != nil {
			return nil, err
		}
	}
	if set.TLSCert != "" || set.TLSKey != "" {
		cfg.Certificates, err = ReadCertificate(set.TLSCert, set.TLSKey)
	}
	return cfg, err
}

// ReadCAs reads the certificates that others are checked with. flag names the file.
func ReadCAs(flag, path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, cmdline.Usage("--%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, cmdline.Usage("--%s %s: holds no PEM certificate", flag, path)
	}
	return pool, nil
}

// ReadCertificate reads the certificate that is shown to others, and its key, which others must not
// be able to read: the files of --tls-cert and --tls-key.
func ReadCertificate(certPath, keyPath string) ([]tls.Certificate, error) {
	if certPath == "" || keyPath == "" {
		return nil, cmdline.Usage("--%s and --%s go together, only one is given", cmdline.FlagTLSCert, cmdline.FlagTLSKey)
	}
	if err := checkSecret(cmdline.FlagTLSKey, keyPath); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err != nil {
		return nil, cmdline.Usage("--%s %s, --%s %s: %w", cmdline.FlagTLSCert, certPath, cmdline.FlagTLSKey, keyPath, err)
	}
	return []tls.Certificate{pair}, nil
}
