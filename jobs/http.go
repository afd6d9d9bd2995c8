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

// HTTPConfig says what [HTTP] may call. Allow or AllowAny must be set; the
// zero value of every other field means its default.
type HTTPConfig struct {
	// Allow lists the URLs that a job may name, and be redirected to: scheme
	// and host, and everything below the path. "https://billing.internal/hooks"
	// allows /hooks and /hooks/daily at that host, not /hooks2, nor port 8443.
	Allow []string
	// AllowAny allows every http and https URL instead: whoever can write to
	// ZooKeeper can then reach whatever this machine can, such as a cloud's
	// metadata service.
	AllowAny bool
	// Client makes the calls. Credentials belong in its Transport: job
	// arguments can be read by whoever reads ZooKeeper. Default: a client that
	// gives up after 30 s.
	Client *http.Client
}

// The headers that tell the server what a call is for.
const (
	IdempotencyKeyHeader = "Idempotency-Key"                // the run's id, which another attempt at the tick does not have
	TokenHeader          = "X-Singleworker-Token"           // the fencing token, decimal
	TickHeader           = "X-Singleworker-Tick"            // the scheduled time, RFC 3339 in UTC
	ShardHeader          = "X-Singleworker-Shard"           // its index, from 0
	ShardsHeader         = "X-Singleworker-Shards"          // how many there are; 1 when the job is not divided
	ShardParameterHeader = "X-Singleworker-Shard-Parameter" // percent-encoded; absent when it has none
)

const (
	httpTimeout  = 30 * time.Second
	maxRedirects = 5
	bodyExcerpt  = 1 << 10
	// bodyDrain is how much of an answer is read, so that its connection can
	// be used again.
	bodyDrain = 256 << 10
)

// HTTP returns a handler that calls a URL. The arguments of its jobs:
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
// Every call carries Idempotency-Key, X-Singleworker-Token,
// X-Singleworker-Tick, X-Singleworker-Shard and X-Singleworker-Shards. A server
// that compares the token with the highest it has seen can refuse a caller that
// has lost the job without knowing it yet; URL, tick and shard together are the
// same in each attempt at a tick. The call ends with the run's context, or with
// Client's timeout. At most 5 redirects are followed.
//
// An answer other than 2xx fails the run, with the first 1 KiB of the answer's
// body; other errors wrap ErrNotAllowed, the cause of the context's end, or
// what Client returned. HTTP itself fails when nothing is allowed, or when
// Allow names something that is not an http or https URL.
func HTTP(cfg HTTPConfig) (singleworker.Handler, error) {
	c := &caller{client: http.Client{Timeout: httpTimeout}, any: cfg.AllowAny}
	switch {
	case cfg.AllowAny && len(cfg.Allow) > 0:
		return nil, errors.New("jobs: HTTPConfig.AllowAny makes Allow meaningless: set one of them")
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

// caller is an HTTP's configuration, checked.
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
	case err != nil: // the server may or may not have done its work
		return fmt.Errorf("%s: %s, then: %w", describe(req), resp.Status, reason(ctx, err))
	}
	return nil
}

const headerArg = "header."

// newRequest makes the request that a job's arguments ask for.
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
		ShardParameterHeader: url.PathEscape(run.Shard.Parameter), // it may have line breaks, which a header may not
	}
	for arg, value := range run.Args {
		name, isHeader := strings.CutPrefix(arg, headerArg)
		if !isHeader {
			continue
		}
		name = http.CanonicalHeaderKey(name)
		if _, taken := own[name]; taken || name == "Host" {
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

// checkRedirect refuses targets that are not allowed, and too many of them,
// before it asks what the application has set.
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

// check returns an ErrNotAllowed for a URL that a job may not call.
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

// withoutSecrets is a URL without what may be confidential in it.
func withoutSecrets(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// reason takes the URL, which may hold secrets, out of a client's error, and
// puts in why the run's context ended.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
