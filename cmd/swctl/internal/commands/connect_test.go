package commands

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
)

func TestAuthFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content string
		mode    os.FileMode
		auth    string
		says    string
	}{
		{"ops:s3cret\n", 0o600, "ops:s3cret", ""},
		{"ops:s3:cret\r\n", 0o400, "ops:s3:cret", ""},
		{"ops: s3cret ", 0o600, "ops: s3cret ", ""},
		{"ops:s3cret\n", 0o440, "ops:s3cret", ""},
		{"ops:s3cret\n", 0o660, "", ": others may read or change it (mode 0660)\ntry: chmod 600 "},
		{"ops:s3cret\n", 0o604, "", ": others may read or change it (mode 0604)\ntry: chmod 600 "},
		{"s3cret\n", 0o600, "", ": want one line user:password\n"},
		{":s3cret\n", 0o600, "", ": want one line user:password\n"},
		{"s3cret:\n", 0o600, "", ": want one line user:password\n"},
		{"ops:s3cret\nmore:s3cret\n", 0o600, "", ": want one line user:password\n"},
		{"", 0o600, "", ": want one line user:password\n"},
	} {
		h := newHarness(t)
		path := filepath.Join(t.TempDir(), "auth")
		writeFile(t, path, []byte(c.content))
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		code := h.exec("list", "--auth-file", path)
		if (code == cmdline.ExitOK) != (c.says == "") || h.config.Auth != c.auth {
			t.Errorf("%q %o: exit %d, auth %q, stderr %q", c.content, c.mode, code, h.config.Auth, h.errs.String())
		}
		if says := h.errs.String(); !strings.Contains(says, c.says) || strings.Contains(says, "s3cret") {
			t.Errorf("%q %o: stderr %q", c.content, c.mode, says)
		}
	}
	h := newHarness(t)
	if code := h.exec("list", "--auth-file", t.TempDir()); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), ": is not a regular file\n") {
		t.Errorf("a directory: exit %d, stderr %q", code, h.errs.String())
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, text := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "text")
	writePair(t, cert, key)
	writeFile(t, text, []byte("no PEM"))

	h := newHarness(t)
	if code := h.exec("list"); code != cmdline.ExitOK || h.config.TLS != nil {
		t.Errorf("without flags: exit %d, TLS %v", code, h.config.TLS)
	}
	if code := h.exec("list", "--tls-ca", cert); code != cmdline.ExitOK || h.config.TLS.RootCAs == nil || h.config.TLS.Certificates != nil {
		t.Errorf("--tls-ca: exit %d, TLS %+v, stderr %q", code, h.config.TLS, h.errs.String())
	}
	if code := h.exec("list", "--tls-cert", cert, "--tls-key", key); code != cmdline.ExitOK || h.config.TLS.RootCAs != nil || len(h.config.TLS.Certificates) != 1 {
		t.Errorf("--tls-cert: exit %d, TLS %+v, stderr %q", code, h.config.TLS, h.errs.String())
	}
	open := filepath.Join(dir, "open")
	writeFile(t, open, []byte("a key"))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for line, says := range map[string]string{
		"list --tls-cert " + cert + " --tls-key " + open: "open: others may read or change it (mode 0644)",
		"list --tls-cert " + cert + " --tls-key " + dir:  "is not a regular file",
		"list --tls-ca " + text:                          "holds no PEM certificate",
		"list --tls-cert " + cert + " --tls-key " + text: "failed to find any PEM data",
		"list --tls-cert " + key + " --tls-key " + cert:  "--tls-cert " + key,
	} {
		if code := h.exec(strings.Fields(line)...); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), says) {
			t.Errorf("%s: exit %d, stderr %q", line, code, h.errs.String())
		}
	}
}

// A server whose certificate nobody trusts is up: the remedy is a flag.
func TestCertificateIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, other, otherKey := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "other"), filepath.Join(dir, "other.key")
	writePair(t, cert, key)
	writePair(t, other, otherKey)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	secure := tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
	go func() {
		for {
			conn, err := secure.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }() // which shakes hands
		}
	}()
	h := newHarness(t)
	h.app.dial, h.Now = group.Dial, time.Now
	code := h.exec("list", "--zk", secure.Addr().String(), "--timeout", "1500ms", "--tls-ca", other)
	if says := h.errs.String(); code != cmdline.ExitUnavailable || !strings.Contains(says, "try: correct --tls-ca, --tls-cert or --tls-key: ") {
		t.Errorf("exit %d, stderr %s", code, says)
	}
}

// writePair makes a certificate that signs itself, and its key.
func writePair(t *testing.T, certPath, keyPath string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	writeFile(t, keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The fault is said early, by how the servers stand, and ends a command that was not told to wait.
func TestNoServerAnswers(t *testing.T) {
	t.Parallel()
	const closed = "127.0.0.1:1" // other tests may listen at a port that was free just now
	hangs := listen(t)
	go func() {
		for {
			conn, err := hangs.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	for address, want := range map[string][2]string{
		closed:                {closed + " accepts no connections: connect: connection refused", "\ntry: start ZooKeeper, or correct the address; --zk (or SWCTL_ZK) is " + closed},
		hangs.Addr().String(): {" accepts connections, and does not say how it stands", "\ntry: look at the logs of the servers: one may have no quorum, "},
	} {
		h := newHarness(t)
		h.app.dial, h.Now = group.Dial, time.Now
		begun := time.Now()
		code := h.exec("list", "--zk", address)
		says, took := h.errs.String(), time.Since(begun)
		if code != cmdline.ExitUnavailable || !strings.Contains(says, want[0]+want[1]) || took >= cmdline.DefaultTimeout {
			t.Errorf("%s: exit %d after %v, stderr %s", address, code, took, says)
		}
		code = h.exec("list", "--zk", address, "-o", "json")
		if code != cmdline.ExitUnavailable || !strings.HasPrefix(h.errs.String(), "{") || strings.Count(h.errs.String(), "\n") != 1 {
			t.Errorf("%s: exit %d, stderr %s", address, code, h.errs.String())
		}
		code = h.exec("list", "--zk", address, "--timeout", "1500ms")
		early, late, _ := strings.Cut(h.errs.String(), "\n")
		if code != cmdline.ExitUnavailable || !strings.HasSuffix(early, want[0]+"; trying until --timeout (1.5s) is over") || !strings.Contains(late, want[1]) {
			t.Errorf("%s: exit %d, stderr %s", address, code, h.errs.String())
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
