package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// A server that requires TLS and client certificates.
func TestTLS(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	pair := newKeyPair(t)
	addr := terminateTLS(t, pair.serverConfig(), c.server.Addr())
	c.start(options{Servers: addr + c.chroot, TLS: pair.clientConfig()})
	c.submit("job", work)
	c.awaitRun("job", time.Time{}, ended)

	program := buildSwctl(t)
	secure := &swctl{t, program, []string{"SWCTL_ZK=" + addr + c.chroot, "SWCTL_SERVER_TYPE=" + c.group, "HOME=" + c.dir}}
	flags := []string{"--tls-ca", pair.cert, "--tls-cert", pair.cert, "--tls-key", pair.key}
	secure.run(exitOK, append([]string{"show", "job"}, flags...)...)

	stranger := newKeyPair(t)
	secure.run(exitUnavailable, "list", "--timeout", "1s", "--tls-ca", stranger.cert)
	secure.run(exitUnavailable, "list", "--timeout", "1s") // plain text
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := admin.Dial(ctx, admin.Config{Servers: addr, ServerType: c.group, TLS: stranger.clientConfig()})
	wantErr(t, "Dial with a certificate nobody trusts", err, admin.ErrUnavailable)
}

// keyPair writes a self-signed certificate for 127.0.0.1 to files.
type keyPair struct {
	t         *testing.T
	cert, key string
}

func newKeyPair(t *testing.T) keyPair {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "zookeeper"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	dir := t.TempDir()
	pair := keyPair{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	must(os.WriteFile(pair.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	must(os.WriteFile(pair.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return pair
}

func (p keyPair) load() (tls.Certificate, *x509.CertPool) {
	p.t.Helper()
	cert, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	return cert, pool
}

func (p keyPair) serverConfig() *tls.Config {
	cert, pool := p.load()
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
}

func (p keyPair) clientConfig() *tls.Config {
	cert, pool := p.load()
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// terminateTLS listens with TLS and forwards to target in plain text.
func terminateTLS(t *testing.T, cfg *tls.Config, target string) (addr string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	var pumps sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		pumps.Wait()
	})
	pumps.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			pumps.Go(func() { passOn(ctx, client, target) })
		}
	})
	return listener.Addr().String()
}

// passOn copies in both directions until one side or ctx ends.
func passOn(ctx context.Context, client net.Conn, target string) {
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	hangUp := func() {
		_ = client.Close()
		_ = server.Close()
	}
	defer context.AfterFunc(ctx, hangUp)()
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		ways.Go(func() {
			defer hangUp()
			_, _ = io.Copy(way[0], way[1]) // ends with the connection
		})
	}
	ways.Wait()
}
