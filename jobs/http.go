package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// HTTPConfig configures [HTTP]. Allow or AllowAny must be set; the zero value of
// every other field means its default.
type HTTPConfig struct {
	// Allow lists the URLs that jobs may call and be redirected to, as prefixes:
	// "https://billing.internal/hooks" allows /hooks and /hooks/daily on that
	// host, but not /hooks2 or port 8443.
	Allow []string
	// AllowAny allows every http and https URL instead. Anyone who can write to
	// ZooKeeper can then reach everything that this machine can reach, such as a
	// cloud's metadata service.
	AllowAny bool
	// Client sends the requests. Put credentials into its Transport: job arguments
	// are visible to anyone who can read ZooKeeper. Default: a client with a
	// timeout of 30 s.
	Client *http.Client
}

// The headers that describe the run to the server.
const (
	IdempotencyKeyHeader = "Idempotency-Key"                // the run's id; each attempt has a different one
	TokenHeader          = "X-Singleworker-Token"           // the fencing token, decimal
	TickHeader           = "X-Singleworker-Tick"            // the scheduled time, RFC 3339 in UTC
	ShardHeader          = "X-Singleworker-Shard"           // index of the shard, from 0
	ShardsHeader         = "X-Singleworker-Shards"          // number of shards; 1 for a job without
	ShardParameterHeader = "X-Singleworker-Shard-Parameter" // percent-encoded; absent if empty
)

const (
	httpTimeout  = 30 * time.Second
	maxRedirects = 5
	bodyExcerpt  = 1 << 10
	// bodyDrain limits how much of a response is read so that its connection can
	// be reused.
	bodyDrain = 256 << 10
)

// HTTP returns a handler that calls a URL. Its jobs have these arguments:
//
//	url          http or https, below one of HTTPConfig.Allow
//	method       default: POST with a body, GET without one
//	body         default: none
//	header.NAME  a header of the request; may be repeated
//
// as in
//
//	swctl submit rates '@hourly' --handler http --arg url=https://billing.internal/hooks/rates \
//	    --arg 'body={"full":true}' --arg header.Content-Type=application/json
//
// Every request has the headers Idempotency-Key, X-Singleworker-Token,
// X-Singleworker-Tick, X-Singleworker-Shard and X-Singleworker-Shards. A server
// that remembers the highest token can refuse callers that have lost the job
// without having noticed yet. URL, tick and shard together identify a tick in all
// its attempts. The request ends with the run's context or with Client's timeout.
// At most 5 redirects are followed.
//
// A response other than 2xx fails the run; the error has the first 1 KiB of its
// body. Other errors wrap ErrNotAllowed, the cause of the context, or Client's
// error. HTTP returns an error if nothing is allowed, or if Allow has an entry that
// is not an http or https URL.
func HTTP(cfg HTTPConfig) (singleworker.Handler, error) {
	c := &caller{client: http.Client{Timeout: httpTimeout}, any: cfg.AllowAny}
	switch {
	case cfg.AllowAny && len(cfg.Allow) > 0:
		return nil, errors.New("jobs: HTTPConfig.Allow and AllowAny are both set: set one of them")
	case !cfg.AllowAny && len(cfg.Allow) == 0:
		return nil, errors.New("jobs: HTTPConfig.Allow is empty: list the URLs that jobs may call")
	}
	for _, text := range cfg.Allow {
		prefix, err := parsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("jobs: HTTPConfig.Allow: %q %w", text, err)
		}
		c.allow = append(c.allow, prefix)
	}
	if cfg.Client != nil {
		c.client = *cfg.Client
	}
	c.client.CheckRedirect = c.checkRedirect(c.client.CheckRedirect)
	return c.run, nil
}

// caller is a checked HTTPConfig.
type caller struct {
	client http.Client
	allow  []urlPrefix
	any    bool
}

func (c *caller) run(ctx context.Context, run *singleworker.Run) error {
	req, err := newRequest(ctx, run)
	if err != nil {
		return err
	}
	if err := c.check(req.URL); err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(req), reason(ctx, err))
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, bodyDrain)
	excerpt, err := io.ReadAll(io.LimitReader(body, bodyExcerpt))
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	switch {
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("%s: %s: %s", describe(req), resp.Status, quote(excerpt))
	case err != nil: // the server may or may not have completed the work
		return fmt.Errorf("%s: %s, then: %w", describe(req), resp.Status, reason(ctx, err))
	}
	return nil
}

const headerArg = "header."

// newRequest builds the request from the job's arguments.
func newRequest(ctx context.Context, run *singleworker.Run) (*http.Request, error) {
	if err := checkArgs(run.Args, "url", "method", "body", headerArg); err != nil {
		return nil, err
	}
	body, method := run.Args["body"], http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	method = cmp.Or(run.Args["method"], method)
	req, err := http.NewRequestWithContext(ctx, method, run.Args["url"], strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("job arguments: %w", err)
	}
	own := map[string]string{
		IdempotencyKeyHeader: run.ID,
		TokenHeader:          strconv.FormatInt(run.Token, 10),
		TickHeader:           run.Tick.UTC().Format(time.RFC3339Nano),
		ShardHeader:          strconv.Itoa(run.Shard.Index),
		ShardsHeader:         strconv.Itoa(run.Shard.Total),
		ShardParameterHeader: url.PathEscape(run.Shard.Parameter), // may have line breaks, which headers cannot
	}
	for arg, value := range run.Args {
		name, isHeader := strings.CutPrefix(arg, headerArg)
		if !isHeader {
			continue
		}
		name = http.CanonicalHeaderKey(name)
		// Servers that hand headers on as variables take "_" for "-".
		if _, taken := own[http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))]; taken || name == "Host" {
			return nil, fmt.Errorf("argument %q: a job cannot set this header", arg)
		}
		req.Header.Set(name, value)
	}
	for name, value := range own {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

// checkRedirect refuses redirects that are too many or not allowed, then calls the
// application's CheckRedirect, if any.
func (c *caller) checkRedirect(then func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if err := c.check(req.URL); err != nil {
			return fmt.Errorf("redirect: %w", err)
		}
		if then != nil {
			return then(req, via)
		}
		return nil
	}
}

// check returns ErrNotAllowed for a URL that jobs may not call.
func (c *caller) check(u *url.URL) error {
	target, err := prefixOf(u)
	if err != nil {
		return fmt.Errorf("URL %q %w: %w", withoutSecrets(u), err, ErrNotAllowed)
	}
	if c.any {
		return nil
	}
	for _, prefix := range c.allow {
		if prefix.covers(target) {
			return nil
		}
	}
	return fmt.Errorf("URL %q: %w", withoutSecrets(u), ErrNotAllowed)
}

func describe(req *http.Request) string { return req.Method + " " + withoutSecrets(req.URL) }

// withoutSecrets returns a URL without the parts that may be confidential.
func withoutSecrets(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// reason returns the cause if the run's context has ended, else the client's error
// without the URL, which may hold secrets.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
