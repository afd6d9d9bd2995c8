package zkdev_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// certify makes a certificate for 127.0.0.1, which also signs itself.
func certify(t *testing.T) (cert tls.Certificate, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// A logbook keeps the lines of a log.
type logbook struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{} // one element for each line, unless it is nil
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrote != nil {
		l.wrote <- struct{}{}
	}
	return l.text.Write(p)
}

// await waits for a text.
func (l *logbook) await(text string) {
	for !strings.Contains(l.String(), text) {
		<-l.wrote
	}
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ask sends a question, and returns the answer, or why there is none.
func ask(conn net.Conn, question string) (string, error) {
	defer conn.Close()
	if _, err := io.WriteString(conn, question); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// TestTLS: clients that speak TLS, and have a certificate where that is asked for, are served. The
// log says of each of the others why not, and so does the alert that it gets.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, pool := certify(t)
	theirs, others := certify(t)
	good := tls.Config{RootCAs: pool, Certificates: []tls.Certificate{ours}}
	for name, c := range map[string]struct {
		clients *x509.CertPool // that the server takes
		client  *tls.Config    // nil: plain TCP
		says    string         // to the client, if it is refused
		logs    string
	}{
		"good":            {pool, &good, "", ""},
		"nobody is asked": {nil, &tls.Config{RootCAs: pool}, "", ""},
		"TLS 1.2":         {pool, &tls.Config{RootCAs: pool, Certificates: good.Certificates, MaxVersion: tls.VersionTLS12}, "", ""},                                                                                //nolint:gosec // what an old client speaks
		"TLS 1.1":         {pool, &tls.Config{RootCAs: pool, Certificates: good.Certificates, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "protocol version", "offered only unsupported versions"}, //nolint:gosec // what an old client speaks
		"another CA":      {pool, &tls.Config{RootCAs: others, Certificates: good.Certificates}, "unknown authority", "TLS handshake: remote error: tls: bad certificate"},
		"no certificate":  {pool, &tls.Config{RootCAs: pool}, "certificate required", "TLS handshake: tls: client didn't provide a certificate"},
		"a stranger's":    {pool, &tls.Config{RootCAs: pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &theirs, nil }}, "certificate", "TLS handshake: tls: failed to verify certificate"},
		"plain TCP":       {pool, nil, "", "the client speaks no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &tls.Config{Certificates: []tls.Certificate{ours}, ClientCAs: c.clients, MinVersion: tls.VersionTLS10} //nolint:gosec // the server raises it
			if c.clients != nil {
				config.ClientAuth = tls.RequireAndVerifyClientCert
			}
			log := logbook{wrote: make(chan struct{}, 100)}
			server := zkdev.Start(t, zkdev.Config{TLS: config, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			conn, question := raw, "\x00\x00\x00\x2c"+string(make([]byte, 44)) // how a session is begun
			if c.client != nil {
				question = "ruok"
				client := c.client.Clone()
				client.ServerName = "127.0.0.1"
				conn = tls.Client(raw, client)
			}
			answer, err := ask(conn, question)
			switch {
			case c.logs == "" && (answer != "imok" || err != nil):
				t.Errorf("ruok = %q, %v", answer, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("the client is told %v, want %s", err, c.says)
			case c.logs != "" && answer == "imok":
				t.Error("it is served")
			}
			if log.await(c.logs); c.logs == "" && strings.Contains(log.String(), "connection closed") {
				t.Errorf("log: %s", log.String())
			}
			server.Stop()
		})
	}
}

// TestTLSClientOfPlainServer: the log says that it speaks TLS, and not that its frame is long.
func TestTLSClientOfPlainServer(t *testing.T) {
	t.Parallel()
	var log logbook
	server := zkdev.Start(t, zkdev.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := ask(tls.Client(raw, &tls.Config{ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}), "ruok"); err == nil {
		t.Errorf("ruok = %q", answer)
	}
	server.Stop()
	if text := log.String(); !strings.Contains(text, "the client speaks TLS, and this server does not") {
		t.Errorf("log: %s", text)
	}
}

// TestRefusalsAreLoggedSparingly: a client that tries for ever does not fill a disk.
func TestRefusalsAreLoggedSparingly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logbook
		server := zkdev.Start(t, zkdev.Config{NoListen: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		intrude := func(times int) (lines int) {
			before := strings.Count(log.String(), "connection closed")
			for range times {
				conn, err := server.Dial(context.Background(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(conn, "\xff\xff\xff\xff")
				_, _ = io.ReadAll(conn)
				_ = conn.Close()
			}
			return strings.Count(log.String(), "connection closed") - before
		}
		if n := intrude(100); n != 20 || strings.Count(log.String(), "are not logged") != 1 {
			t.Errorf("%d lines of 100, want 20 and the remark: %s", n, log.String())
		}
		time.Sleep(time.Minute)
		if n := intrude(1); n != 1 {
			t.Errorf("%d lines in the next minute, want 1", n)
		}
	})
}
