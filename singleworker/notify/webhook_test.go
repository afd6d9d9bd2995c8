package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/notify"
)

const key = "a key of thirty-two bytes, or so"

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// hostile is text as it may be in the tree, as Item has it.
const hostile = "<!channel> *bold* @all \\ \" </script> \ufffd[31m"

// news is a message with two items.
func news() notify.Message {
	return notify.Message{ServerType: "billing", Sender: "app-1", At: noon, Items: []notify.Item{
		{ID: "0123", Kind: notify.Failed, Job: "report", Tick: noon.Add(-time.Minute), At: noon.Add(-30 * time.Second), Count: 3, InstanceID: "app-2", RunID: "r1", Error: hostile},
		{ID: "4567", Kind: notify.Recovered, Of: notify.Missed, Job: "rows[3]", Tick: noon.Add(-time.Hour), At: noon, Count: 7},
	}}
}

// received is a request as a target made it.
type received struct {
	header http.Header
	path   string
	body   string
}

// receiver is a server that keeps the last request and answers.
func receiver(t *testing.T, status int, answer string) (url string, last *received) {
	t.Helper()
	last = &received{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*last = received{r.Header, r.URL.RequestURI(), string(body)}
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL, last
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	url, last := receiver(t, http.StatusAccepted, "")
	hook := &notify.Webhook{URL: notify.Secret(url + "/hook?token=t0ken"), Key: key, Header: map[string]notify.Secret{"Authorization": "Bearer t"}}
	if err := hook.Send(t.Context(), news()); err != nil {
		t.Fatal(err)
	}
	const want = `[{"specversion":"1.0","id":"0123","type":"singleworker.job.failed","source":"/singleworker/billing","subject":"report",` +
		`"time":"2026-11-22T11:59:30Z","datacontenttype":"application/json","data":{"id":"0123","kind":"failed","job":"report",` +
		`"tick":"2026-11-22T11:59:00Z","at":"2026-11-22T11:59:30Z","count":3,"instance_id":"app-2","run_id":"r1",` +
		`"error":"<!channel> *bold* @all \\ \" </script> ` + "\ufffd" + `[31m"}},` +
		`{"specversion":"1.0","id":"4567","type":"singleworker.job.recovered","source":"/singleworker/billing","subject":"rows[3]",` +
		`"time":"2026-11-22T12:00:00Z","datacontenttype":"application/json","data":{"id":"4567","kind":"recovered","job":"rows[3]","of":"missed",` +
		`"tick":"2026-11-22T11:00:00Z","at":"2026-11-22T12:00:00Z","count":7}}]`
	if last.body != want {
		t.Errorf("posted\n%s\nwant\n%s", last.body, want)
	}
	if got := last.header.Get("Content-Type"); got != "application/cloudevents-batch+json; charset=utf-8" || last.header.Get("Authorization") != "Bearer t" {
		t.Errorf("header %v", last.header)
	}
	soon := noon.Add(time.Minute)
	if err := notify.Verify(key, last.header, []byte(last.body), soon); err != nil {
		t.Errorf("Verify = %v", err)
	}
	for what, err := range map[string]error{
		"another body":  notify.Verify(key, last.header, []byte(last.body+" "), soon),
		"another key":   notify.Verify(key+"!", last.header, []byte(last.body), soon),
		"an old one":    notify.Verify(key, last.header, []byte(last.body), noon.Add(6*time.Minute)),
		"without":       notify.Verify(key, http.Header{}, []byte(last.body), soon),
		"from tomorrow": notify.Verify(key, last.header, []byte(last.body), noon.Add(-6*time.Minute)),
	} {
		if !errors.Is(err, notify.ErrSignature) {
			t.Errorf("Verify of %s: %v, want ErrSignature", what, err)
		}
	}
}

// The signature is the one in the documentation of Standard Webhooks.
func TestVerifyKnownSignature(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	header.Set("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("Webhook-Timestamp", "1614265330")
	header.Set("Webhook-Signature", "v2,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	if err := notify.Verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", header, []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0)); err != nil {
		t.Error(err)
	}
}

// Nothing that is refused, logged or printed shows a URL, a key or a password.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	redirects, _ := receiver(t, http.StatusFound, "")
	refuses, _ := receiver(t, http.StatusForbidden, "no\x1b[31m\nsuch token")
	long, _ := receiver(t, http.StatusOK, strings.Repeat("x", 1<<20))
	for _, c := range []struct {
		url, want string
		wrong     bool
	}{
		{redirects, "HTTP status 302", true},
		{refuses, "HTTP status 403: no\ufffd[31m", true},
		{"http://127.0.0.1:1", "connect", true},
		{long, "", false},
	} {
		hook := &notify.Webhook{URL: notify.Secret(c.url + "/hook/s3cret"), Key: key}
		err := hook.Send(t.Context(), news())
		if (err != nil) != c.wrong {
			t.Errorf("Send = %v", err)
		} else if err != nil && (strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("Send = %v; want %q, and not the path", err, c.want)
		}
	}
	var printed strings.Builder
	hook := notify.Webhook{URL: "https://example.com/s3cret", Key: "s3cret"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&printed, format+format, hook, &hook)
	}
	slog.New(slog.NewTextHandler(&printed, nil)).Info("text", "hook", hook, "url", hook.URL)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("json", "hook", hook, "url", hook.URL)
	if err := json.NewEncoder(&printed).Encode(map[string]any{"url": hook.URL}); err != nil {
		t.Error(err)
	}
	if text := printed.String(); strings.Contains(text, "s3cret") || strings.Contains(text, "733363") {
		t.Error(text)
	}
}

// A reply that does not come ends with the context.
func TestSendEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // else the server does not notice that the client is gone
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	err := (&notify.Webhook{URL: notify.Secret(server.URL), Key: key}).Send(ctx, news())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Send = %v, want Canceled", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := func() notify.Config {
		cfg := notify.Config{Targets: map[string]notify.Sender{"ops": &notify.Webhook{URL: "https://example.com/x", Key: key}}}
		cfg.Group.Servers, cfg.Group.ServerType = "zk1", "billing"
		cfg.Rules = []notify.Rule{{To: []string{"ops"}}}
		return cfg
	}
	if _, err := notify.New(good()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field  string
		change func(cfg *notify.Config)
	}{
		{"Group", func(cfg *notify.Config) { cfg.Group.Servers = "" }},
		{"Targets", func(cfg *notify.Config) { cfg.Targets, cfg.Rules = nil, nil }},
		{`Targets["a/b"]`, func(cfg *notify.Config) { cfg.Targets["a/b"] = cfg.Targets["ops"] }},
		{`Targets["ops"]`, func(cfg *notify.Config) { cfg.Targets["ops"] = nil }},
		{`Targets["ops"]`, func(cfg *notify.Config) { cfg.Targets["ops"] = &notify.Webhook{URL: "http://example.com/x", Key: key} }},
		{`Targets["ops"]`, func(cfg *notify.Config) {
			cfg.Targets["ops"] = &notify.Webhook{URL: "https://u@example.com/x", Key: key}
		}},
		{`Targets["ops"]`, func(cfg *notify.Config) { cfg.Targets["ops"] = &notify.Webhook{URL: "example.com", Key: key} }},
		{`Targets["ops"]`, func(cfg *notify.Config) {
			cfg.Targets["ops"] = &notify.Webhook{URL: "https://example.com/x", Key: "short"}
		}},
		{`Targets["ops"]`, func(cfg *notify.Config) {
			cfg.Targets["ops"] = &notify.Webhook{URL: "https://example.com/x", Key: "whsec_!"}
		}},
		{`Targets["ops"]`, func(cfg *notify.Config) { cfg.Targets["ops"] = &notify.Slack{URL: "http://example.com/x"} }},
		{`Targets["ops"]`, func(cfg *notify.Config) { cfg.Targets["ops"] = &notify.DingTalk{} }},
		{`Targets["ops"]`, func(cfg *notify.Config) { cfg.Targets["ops"] = &notify.WeCom{URL: "x"} }},
		{`Targets["ops"]`, func(cfg *notify.Config) {
			cfg.Targets["ops"] = &notify.Mail{Server: "mail", From: "a@b.c", To: []string{"a@b.c"}}
		}},
		{`Targets["ops"]`, func(cfg *notify.Config) {
			cfg.Targets["ops"] = &notify.Mail{Server: "mail:25", From: "a@b.c\r\nBcc: x@y.z", To: []string{"a@b.c"}}
		}},
		{`Targets["ops"]`, func(cfg *notify.Config) { cfg.Targets["ops"] = &notify.Mail{Server: "mail:25", From: "a@b.c"} }},
		{`Targets["ops"]`, func(cfg *notify.Config) {
			cfg.Targets["ops"] = &notify.Mail{Server: "mail:25", From: "a@b.c", To: []string{"a@b.c"}, User: "a"}
		}},
		{"Rules[0].Jobs", func(cfg *notify.Config) { cfg.Rules[0].Jobs = "[" }},
		{"Rules[0].On", func(cfg *notify.Config) { cfg.Rules[0].On = []notify.Kind{"fails"} }},
		{"Rules[0].To", func(cfg *notify.Config) { cfg.Rules[0].To = nil }},
		{"Rules[0].To", func(cfg *notify.Config) { cfg.Rules[0].To = []string{"dev"} }},
		{"Pings[0]", func(cfg *notify.Config) { cfg.Pings = []notify.Ping{{URL: "http://example.com/x"}} }},
		{"Gather", func(cfg *notify.Config) { cfg.Gather = -1 }},
		{"Every", func(cfg *notify.Config) { cfg.Every = 25 * time.Hour }},
		{"PingEvery", func(cfg *notify.Config) { cfg.PingEvery = time.Millisecond }},
		{"Timeout", func(cfg *notify.Config) { cfg.Timeout = time.Hour }},
	} {
		cfg := good()
		c.change(&cfg)
		_, err := notify.New(cfg)
		var refused *invalid.FieldError
		if !errors.As(err, &refused) || refused.Field != c.field {
			t.Errorf("%v, want an *invalid.FieldError of %s", err, c.field)
		}
	}
}

func TestTestMessage(t *testing.T) {
	t.Parallel()
	url, last := receiver(t, http.StatusOK, "")
	cfg := notify.Config{Targets: map[string]notify.Sender{"ops": &notify.Webhook{URL: notify.Secret(url), Key: key}}}
	cfg.Group.Servers, cfg.Group.ServerType = "zk1", "billing"
	n, err := notify.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Test(t.Context(), "ops"); err != nil || !strings.Contains(last.body, `"type":"singleworker.job.test"`) {
		t.Errorf("Test = %v, posted %s", err, last.body)
	}
	if err := n.Test(t.Context(), "dev"); err == nil {
		t.Error("there is no such target, and no error")
	}
}

// A message for people lists 20 items, or what there is room for, and counts the others.
func TestText(t *testing.T) {
	t.Parallel()
	m := news()
	const want = "billing: 1 failed, 1 recovered\n" +
		"- report failed 3 times, since 2026-11-22 11:59:00 UTC, on app-2: " + hostile + "\n" +
		"- rows[3] recovered after 7 missed ticks, since 2026-11-22 11:00:00 UTC\n"
	if got := m.Text(2000); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for range 9998 {
		m.Items = append(m.Items, m.Items[0])
	}
	if got := m.Text(10_000); strings.Count(got, "\n- ") != 20 || !strings.HasSuffix(got, "\nand 9980 more\n") || !strings.HasPrefix(got, "billing: 9999 failed, 1 recovered\n") {
		t.Error(got)
	}
	if got := m.Text(300); len(got) > 300 || !strings.HasSuffix(got, "\nand 9998 more\n") {
		t.Error(got)
	}
	m.ServerType = strings.Repeat("\u00e9", 300)
	if got := m.Subject(); len(got) > 200 || !strings.HasPrefix(got, "\u00e9") || strings.Contains(got, "\ufffd") {
		t.Error(got)
	}
}
