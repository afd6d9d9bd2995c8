package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Secret is a text that nothing prints: a key, a password, or a URL that contains one.
type Secret string

const hidden = "(not shown)"

// Format prints that there is a secret.
func (s Secret) Format(f fmt.State, _ rune) {
	if s != "" {
		_, _ = io.WriteString(f, hidden)
	}
}

// LogValue is the Secret as Format prints it.
func (s Secret) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(s)) }

// MarshalText is the Secret as Format prints it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(fmt.Sprint(s)), nil }

// maxReply is how much of a reply is read.
const maxReply = 64 << 10

// web is common to the targets that speak HTTP.
type web struct {
	url       Secret
	transport http.RoundTripper
}

// check refuses a URL that is not safe for a secret: it must be HTTPS unless it is of this machine.
func (w web) check() error {
	u, err := url.Parse(string(w.url))
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New(`field URL: want "https://host/path", without a user`)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLocal(u.Hostname())) {
		return errors.New("field URL: want https: the message, and what authorizes it, would be sent in the clear; http is for this machine only")
	}
	return nil
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// post sends a body and returns the beginning of the reply, which had a status of 200 to 299.
// Redirects are not followed: they could lead elsewhere. Errors contain nothing of the URL but the
// host.
func (w web) post(ctx context.Context, header http.Header, body []byte) (reply []byte, err error) {
	return w.send(ctx, http.MethodPost, header, bytes.NewReader(body))
}

func (w web) send(ctx context.Context, method string, header http.Header, body io.Reader) (reply []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, string(w.url), body)
	if err != nil {
		return nil, errors.New("the URL cannot be used")
	}
	req.Header = header
	req.Header.Set("User-Agent", "singleworker-notify")
	client := &http.Client{Transport: w.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		if wrapped := new(url.Error); errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL
		}
		return nil, fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		said := w.excerpt(reply)
		if said != "" {
			said = ": " + said
		}
		return nil, fmt.Errorf("%s: HTTP status %d%s", req.URL.Host, resp.StatusCode, said)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: read the reply: %w", req.URL.Host, err)
	}
	return reply, nil
}

// postJSON is post for a document.
func (w web) postJSON(ctx context.Context, document any) (reply []byte, err error) {
	body, err := marshal(document)
	if err != nil {
		return nil, err
	}
	return w.post(ctx, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body)
}

// robotReply is how DingTalk and WeCom answer, with a status of 200 in any case.
type robotReply struct {
	Code    *int   `json:"errcode"`
	Message string `json:"errmsg"`
}

// postToRobot posts a text to DingTalk or WeCom, which speak the same format. Nobody is mentioned.
func (w web) postToRobot(ctx context.Context, text string) error {
	document := map[string]any{"msgtype": "text", "text": map[string]string{"content": text}}
	reply, err := w.postJSON(ctx, document)
	if err != nil {
		return err
	}
	var answer robotReply
	if err := json.Unmarshal(reply, &answer); err != nil || answer.Code == nil {
		return fmt.Errorf("the reply is not that of a robot: %s", w.excerpt(reply))
	}
	if *answer.Code != 0 {
		return fmt.Errorf("error %d: %s", *answer.Code, w.excerpt([]byte(answer.Message)))
	}
	return nil
}

// marshal is json.Marshal without escapes for HTML, which some receivers show.
func marshal(document any) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	err := enc.Encode(document)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
}

// excerpt is a log's part of a reply: nothing if that repeats possible secrets of the URL, as error
// pages do.
func (w web) excerpt(reply []byte) string {
	text := strings.ToLower(string(reply))
	if slices.ContainsFunc(w.secrets(), func(secret string) bool { return strings.Contains(text, secret) }) {
		return hidden
	}
	return excerpt(reply)
}

// secrets are the words of the URL that may be secret, in small letters: those of four letters and
// digits or more, of the values in the query, and of such parts of the path as nobody reads.
// However a reply escapes them, the words are as they were.
func (w web) secrets() (words []string) {
	const shortest, longest = 4, 12 // names in a path, such as "webhook", are shorter, and have no digits
	u, err := url.Parse(string(w.url))
	if err != nil {
		return nil
	}
	split := func(text string) {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if len(word) >= shortest {
				words = append(words, strings.ToLower(word))
			}
		}
	}
	for part := range strings.SplitSeq(u.Path+"/"+u.EscapedPath(), "/") {
		if len(part) >= longest || strings.ContainsFunc(part, unicode.IsDigit) {
			split(part)
		}
	}
	raw, err := url.PathUnescape(u.RawQuery)
	if err != nil {
		raw = ""
	}
	for pair := range strings.SplitSeq(u.RawQuery+"&"+raw, "&") {
		_, value, _ := strings.Cut(pair, "=")
		split(value)
	}
	return words
}

// excerpt is the beginning of what others wrote.
func excerpt(reply []byte) string {
	return shortened(plain.FirstLine(string(reply[:min(len(reply), 4<<10)])), 200)
}
