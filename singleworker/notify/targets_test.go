package notify_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/notify"
)

// the texts of people's targets.
const said = "billing: 1 failed, 1 recovered\n" +
	"- report failed 3 times, since 2026-11-22 11:59:00 UTC, on app-2: " + hostile + "\n" +
	"- rows[3] recovered after 7 missed ticks, since 2026-11-22 11:00:00 UTC\n"

func TestSlack(t *testing.T) {
	t.Parallel()
	url, last := receiver(t, http.StatusOK, "ok")
	if err := (&notify.Slack{URL: notify.Secret(url + "/services/T0")}).Send(t.Context(), news()); err != nil {
		t.Fatal(err)
	}
	const want = `{"text":"billing: 1 failed, 1 recovered\n- report failed 3 times, since 2026-11-22 11:59:00 UTC, on app-2: ` +
		`&lt;!channel&gt; *bold* @all \\ \" &lt;/script&gt; ` + "\ufffd" + `[31m\n` +
		`- rows[3] recovered after 7 missed ticks, since 2026-11-22 11:00:00 UTC\n","mrkdwn":false,"unfurl_links":false}`
	if last.body != want || last.path != "/services/T0" {
		t.Errorf("%s: posted\n%s\nwant\n%s", last.path, last.body, want)
	}
}

func TestRobots(t *testing.T) {
	t.Parallel()
	const body = `{"msgtype":"text","text":{"content":"billing: 1 failed, 1 recovered\n- report failed 3 times, since 2026-11-22 11:59:00 UTC, on app-2: ` +
		`<!channel> *bold* @all \\ \" </script> ` + "\ufffd" + `[31m\n- rows[3] recovered after 7 missed ticks, since 2026-11-22 11:00:00 UTC\n"}}`
	for _, c := range []struct{ name, answer, path, wrong string }{
		{"DingTalk", `{"errcode":0,"errmsg":"ok"}`, "/robot?access_token=s3cret", ""},
		// The signature is made of: printf '1795348800000\nSECkey' | openssl dgst -sha256 -hmac SECkey
		// -binary | base64
		{"DingTalk signed", `{"errcode":0,"errmsg":"ok"}`, "/robot?access_token=s3cret&timestamp=1795348800000&sign=lb2dplJbE9aVI50ACDSk9fJd6t34ZPkMcybofcAhGt8%3D", ""},
		{"WeCom", `{"errcode":0,"errmsg":"ok"}`, "/robot?access_token=s3cret", ""},
		{"DingTalk", `{"errcode":310000,"errmsg":"sign not\u001b match"}`, "/robot?access_token=s3cret", "error 310000: sign not\ufffd match"},
		{"WeCom", `{"errcode":93000}`, "/robot?access_token=s3cret", "error 93000"},
		{"WeCom", `<html>`, "/robot?access_token=s3cret", "not that of a robot: <html>"},
		{"WeCom", `{}`, "/robot?access_token=s3cret", "not that of a robot"},
	} {
		server, last := receiver(t, http.StatusOK, c.answer)
		url := notify.Secret(server + "/robot?access_token=s3cret")
		target := map[string]notify.Sender{
			"DingTalk": &notify.DingTalk{URL: url}, "DingTalk signed": &notify.DingTalk{URL: url, Key: "SECkey"}, "WeCom": &notify.WeCom{URL: url},
		}[c.name]
		err := target.Send(t.Context(), news())
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s answers %s: %v, want %q", c.name, c.answer, err, c.wrong)
		}
		if last.body != body || last.path != c.path {
			t.Errorf("%s: posted %s\n%s\nwant %s\n%s", c.name, last.path, last.body, c.path, body)
		}
	}
	server, last := receiver(t, http.StatusOK, `{"errcode":0}`)
	m := news()
	for range 100 {
		m.Items = append(m.Items, m.Items[0])
	}
	if err := (&notify.WeCom{URL: notify.Secret(server)}).Send(t.Context(), m); err != nil || len(last.body) > 2400 || !strings.Contains(last.body, " more") {
		t.Errorf("%v; %d bytes: %s", err, len(last.body), last.body)
	}
}

// A reply that repeats the URL, as error pages do, is not shown, however it is escaped.
func TestReplyWithTheSecret(t *testing.T) {
	t.Parallel()
	const path = "/services/T0001/B0001/SUPERSECRETTOKEN?key=s3cr%65t%2Fxyz&v=2"
	for reply, hidden := range map[string]bool{
		`{"status":404,"path":"/services/T0001/B0001/SUPERSECRETTOKEN"}`: true, "no token supersecrettoken": true, `\/B0001\/`: true, "key s3cret&#x2f;": true,
		"s3cr%65t": true, "the services of this webhook are gone": false, "v=2 is too old": false, "": false,
	} {
		for _, robot := range []bool{false, true} {
			status, answer := http.StatusNotFound, reply
			if robot {
				status, answer = http.StatusOK, fmt.Sprintf(`{"errcode":1,"errmsg":%q}`, reply)
			}
			url, _ := receiver(t, status, answer)
			err := (&notify.WeCom{URL: notify.Secret(url + path)}).Send(t.Context(), news())
			if err == nil || hidden && !strings.HasSuffix(err.Error(), ": (not shown)") || !hidden && !strings.Contains(err.Error(), reply) {
				t.Errorf("%s: %v", reply, err)
			}
		}
	}
}

// post is a mail server for one mail.
type post struct {
	lines  []string // the client's, without the mail
	mail   string
	refuse string // the line that is refused begins with that
}

// listen starts the server, which offers STARTTLS if there is a configuration. ended is closed when
// the client is gone.
func (p *post) listen(t *testing.T, config *tls.Config) (address string, ended chan struct{}) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if err := p.talk(conn, config); err != nil && !errors.Is(err, io.EOF) {
			t.Log(err)
		}
	}()
	return l.Addr().String(), ended
}

func (p *post) talk(conn net.Conn, config *tls.Config) error {
	_, err := io.WriteString(conn, "220 mail\r\n")
	in := bufio.NewReader(conn)
	for err == nil {
		var line string
		if line, err = in.ReadString('\n'); err != nil {
			return err
		}
		line = strings.TrimSpace(line)
		p.lines = append(p.lines, line)
		answer := "250 ok\r\n"
		word, _, _ := strings.Cut(line, " ")
		switch {
		case p.refuse != "" && strings.HasPrefix(line, p.refuse):
			answer = "550 no \x1b[31m such user\r\n"
		case word == "EHLO" && config != nil:
			answer = "250-mail\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"
		case word == "EHLO":
			answer = "250-mail\r\n250 AUTH PLAIN\r\n"
		case word == "AUTH":
			answer = "235 ok\r\n"
		case word == "STARTTLS":
			_, _ = io.WriteString(conn, "220 go ahead\r\n")
			secure := tls.Server(conn, config)
			conn, in, config, answer = secure, bufio.NewReader(secure), nil, ""
		case word == "DATA":
			_, _ = io.WriteString(conn, "354 go ahead\r\n")
			for !strings.HasSuffix(p.mail, "\r\n.\r\n") && err == nil {
				var line string
				line, err = in.ReadString('\n')
				p.mail += line
			}
		}
		_, err = io.WriteString(conn, answer)
	}
	return err
}

func TestMail(t *testing.T) {
	t.Parallel()
	https := httptest.NewTLSServer(http.NotFoundHandler())
	defer https.Close()
	roots := x509.NewCertPool()
	roots.AddCert(https.Certificate())
	for _, config := range []*tls.Config{nil, {Certificates: https.TLS.Certificates}} {
		p := &post{}
		address, ended := p.listen(t, config)
		m := &notify.Mail{
			Server: address, User: "ops", Password: "s3cret", From: "Jobs <jobs@example.com>", To: []string{"Ann <ann@example.com>", "bob@example.com"},
			TLS: &tls.Config{RootCAs: roots},
		}
		message := news()
		message.ServerType = "b\u00e9ling"
		if err := m.Send(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		<-ended
		lines := strings.Join(p.lines, "|")
		if want := "MAIL FROM:<jobs@example.com>|RCPT TO:<ann@example.com>|RCPT TO:<bob@example.com>|DATA|QUIT"; !strings.HasSuffix(lines, want) {
			t.Errorf("the client said %s; want %s", lines, want)
		}
		if strings.Contains(lines, "STARTTLS") != (config != nil) || !strings.Contains(lines, "AUTH PLAIN AG9wcwBzM2NyZXQ=") {
			t.Errorf("the client said %s", lines)
		}
		got, err := mail.ReadMessage(strings.NewReader(strings.TrimSuffix(p.mail, ".\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		subject, _ := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		if subject != "b\u00e9ling: 1 failed, 1 recovered" || got.Header.Get("To") != `"Ann" <ann@example.com>, <bob@example.com>` ||
			got.Header.Get("Date") != "Sun, 22 Nov 2026 12:00:00 +0000" || !strings.HasSuffix(got.Header.Get("Message-Id"), "@singleworker.invalid>") {
			t.Errorf("subject %q, header %v", subject, got.Header)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
		if want := strings.Replace(said, "billing", "b\u00e9ling", 1); err != nil || strings.ReplaceAll(string(body), "\r\n", "\n") != want {
			t.Errorf("%v: %q, want %q", err, body, want)
		}
	}
}

func TestMailRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ refuse, want string }{
		{"AUTH", "error 550: no \ufffd[31m such user"}, {"RCPT TO:<bob", "error 550"}, {"MAIL", "error 550"}, {"DATA", "error 550"},
	} {
		p := &post{refuse: c.refuse}
		address, _ := p.listen(t, nil)
		m := &notify.Mail{Server: address, User: "ops", Password: "s3cret", From: "jobs@example.com", To: []string{"ann@example.com", "bob@example.com"}}
		if err := m.Send(t.Context(), news()); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s refused: %v, want %q", c.refuse, err, c.want)
		}
	}
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := silent.Accept()
		cancel()
		if err == nil {
			<-ctx.Done()
			_, _ = io.ReadAll(conn) // until the client is gone
			_ = conn.Close()
		}
	}()
	m := &notify.Mail{Server: silent.Addr().String(), From: "jobs@example.com", To: []string{"ann@example.com"}}
	if err := m.Send(ctx, news()); err == nil {
		t.Error("a server that says nothing has taken the mail")
	}
}
