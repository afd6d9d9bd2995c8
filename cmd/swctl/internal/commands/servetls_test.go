package commands

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker"
)

// TestServesTLS: an instance with Config.TLS and swctl with its flags are clients of a server with
// client certificates. Others are not, and both sides say why. Certificates that are renewed are
// used without a restart, and those that cannot be read change nothing.
func TestServesTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	writePair(t, file("zk.pem"), file("zk.key"))
	writePair(t, file("client.pem"), file("client.key"))
	at, stop := serving(t, "--data", file("data"), "--tls-cert", file("zk.pem"), "--tls-key", file("zk.key"), "--tls-client-ca", file("client.pem"))

	list := func(flags ...string) (cmdline.ExitCode, string) {
		h := newHarness(t)
		h.app.dial, h.Now = group.Dial, time.Now
		h.vars[cmdline.EnvZK] = at.ZK
		code := h.exec(append([]string{"list", "--timeout", "20s"}, flags...)...)
		return code, h.out.String() + h.errs.String()
	}
	good := []string{"--tls-ca", file("zk.pem"), "--tls-cert", file("client.pem"), "--tls-key", file("client.key")}
	serves := func(when string) {
		t.Helper()
		if code, says := list(good...); code != cmdline.ExitOK {
			t.Errorf("%s: exit %d: %s", when, code, says)
		}
	}
	for name, flags := range map[string][]string{
		"plain TCP": {}, "no certificate": {"--tls-ca", file("zk.pem")}, "another CA": {"--tls-ca", file("client.pem"), "--tls-cert", file("client.pem"), "--tls-key", file("client.key")},
		"a stranger's certificate": {"--tls-ca", file("zk.pem"), "--tls-cert", file("zk.pem"), "--tls-key", file("zk.key")},
	} {
		if code, says := list(append(flags, "--timeout", "1s")...); code != cmdline.ExitUnavailable {
			t.Errorf("%s: exit %d: %s", name, code, says)
		}
	}

	pair, err := tls.LoadX509KeyPair(file("client.pem"), file("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(file("zk.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	m, err := singleworker.New(singleworker.Config{
		Servers: at.ZK, ServerType: "billing", TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	if err := m.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}

	serves("at first")
	old, key := file("zk.pem"), file("zk.key")
	writeFile(t, old, []byte("half a certificate"))
	writeFile(t, file("old.pem"), pem)
	good[1] = file("old.pem")
	serves("while the certificate is being written")
	writePair(t, old, key)
	good[1] = old
	serves("after a renewal")

	code, says := stop()
	if code != cmdline.ExitOK {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"the client speaks no TLS", "client didn't provide a certificate", "remote error: tls", "failed to verify certificate",
		"the certificates have changed and cannot be used", "new connections use them",
	} {
		if !strings.Contains(says, want) {
			t.Errorf("the log lacks %q:\n%s", want, says)
		}
	}
	if n := strings.Count(says, "cannot be used"); n > 1 {
		t.Errorf("%d remarks on one file", n)
	}
}
