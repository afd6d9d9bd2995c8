package integration

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/notify"
)

// A notifier configures a process that sends notifications to one target, "hook".
type notifier struct {
	URL    string
	Gather time.Duration
}

const hookKey = "a key of at least 24 bytes for tests"

func sendNotifications(ctx context.Context, cfg childConfig, log *slog.Logger) error {
	o := cfg.Options
	n, err := notify.New(notify.Config{
		Group:   admin.Config{Servers: o.Servers, ServerType: o.Group, Auth: o.Auth, ACL: o.ACL, SessionTimeout: o.Session},
		Targets: map[string]notify.Sender{"hook": &notify.Webhook{URL: notify.Secret(cfg.Notify.URL), Key: hookKey}},
		ID:      o.ID, Gather: cfg.Notify.Gather, Every: time.Millisecond, Logger: log,
	})
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// spawnNotifier starts a process that sends notifications.
func (c *cluster) spawnNotifier(id, url string, gather time.Duration) *child {
	c.t.Helper()
	return c.spawnConfig(nil, childConfig{Options: c.complete(options{ID: id}), Notify: &notifier{url, gather}})
}

// hook is a target of webhooks.
type hook struct {
	t   *testing.T
	url string

	mu   sync.Mutex
	told []string // "singleworker.job.failed pay", with the id
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{t: t}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = notify.Verify(hookKey, r.Header, body, time.Now())
	}
	var events []struct {
		ID, Type, Subject string
		Data              notify.Item
	}
	if err == nil {
		err = json.Unmarshal(body, &events)
	}
	if err != nil {
		h.t.Errorf("webhook: %v\n%s", err, body)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		h.told = append(h.told, e.Type+" "+e.Subject+" "+e.ID)
		if failed := e.Type == "singleworker.job.failed"; failed && !strings.Contains(e.Data.Error, errPaper.Error()) {
			h.t.Errorf("webhook: %s says %q", e.Subject, e.Data.Error)
		}
	}
}

// count is how often a kind of news of a job has come, and under how many IDs.
func (h *hook) count(kind notify.Kind, job string) (times, ids int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := make(map[string]bool)
	for _, told := range h.told {
		if id, is := strings.CutPrefix(told, "singleworker.job."+string(kind)+" "+job+" "); is {
			times++
			seen[id] = true
		}
	}
	return times, len(seen)
}

func (c *cluster) awaitTold(h *hook, kind notify.Kind, job string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("the news that %s %s", job, kind), func() error {
		if times, _ := h.count(kind, job); times == 0 {
			return errors.New("was not told")
		}
		return nil
	})
}

// awaitSender waits until a sender has read everything so far: failures of before are no news.
func (c *cluster) awaitSender(conn *zk.Conn, id string) {
	c.t.Helper()
	c.eventually("the sender "+id, func() error {
		data, _, err := conn.Get(c.node("_notify"))
		if err != nil {
			return err
		}
		var head struct {
			Sender string
			Cursor int64
		}
		if err := json.Unmarshal(data, &head); err != nil {
			return err
		}
		if head.Sender != id || head.Cursor == 0 {
			return fmt.Errorf("it is %s", data)
		}
		return nil
	})
}

// awaitBook waits until a node of the senders' records has a text.
func (c *cluster) awaitBook(conn *zk.Conn, text string) {
	c.t.Helper()
	c.eventually("the senders' records to have "+text, func() error {
		const parts = 64
		paths := []string{c.node("_notify")}
		for i := range parts {
			paths = append(paths, fmt.Sprintf("%s/%d", paths[0], i))
		}
		for _, path := range paths {
			data, _, err := conn.Get(path)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			if strings.Contains(string(data), text) {
				return nil
			}
		}
		return errors.New("none has")
	})
}

// The sender is killed when it has recorded a failure and not told it, and its heir when it has
// told it: everything is told, and nothing again of which the target has confirmed and the sender
// recorded the delivery. Only the jobs name the target.
func TestNotificationsOfSendersThatAreKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	conn, h := c.raw(""), newHook(t)
	var empty atomic.Bool
	o := steady()
	o.Handle = map[string]singleworker.Handler{"print": func(context.Context, *singleworker.Run) error {
		if empty.Load() {
			return errPaper
		}
		return nil
	}}
	c.start(o)
	for _, name := range []string{"pay", "ship", "silent"} {
		j := job.Job{Name: name, Schedule: "@manually", Handler: "print"}
		if name != "silent" {
			j.Notify = map[string][]job.NotifyKind{"hook": {job.NotifyFailed, job.NotifyRecovered}}
		}
		c.submitJob(j, admin.SubmitOptions{})
	}
	trigger := func(names ...string) {
		for _, name := range names {
			_, err := c.admin.Trigger(t.Context(), name, admin.TriggerOptions{})
			c.must(err)
		}
	}
	const never = 10 * time.Minute // the most that New takes; the process is killed long before
	first := c.spawnNotifier("n1", h.url, never)
	c.awaitSender(conn, first.id)
	second := c.spawnNotifier("n2", h.url, time.Millisecond)
	empty.Store(true)
	trigger("pay", "silent")
	c.awaitBook(conn, `"kind":"failed"`)
	first.kill()
	c.awaitTold(h, notify.Failed, "pay")

	c.awaitBook(conn, `"sent":{"hook":1}`)
	times, ids := h.count(notify.Failed, "pay")
	if ids != 1 {
		t.Errorf("one failure was told under %d ids", ids)
	}
	c.spawnNotifier("n3", h.url, time.Millisecond)
	second.kill()
	trigger("ship")
	c.awaitTold(h, notify.Failed, "ship")
	empty.Store(false)
	trigger("pay", "ship", "silent")
	c.awaitTold(h, notify.Recovered, "pay")
	c.awaitTold(h, notify.Recovered, "ship")
	if again, _ := h.count(notify.Failed, "pay"); again != times {
		t.Errorf("the failure of pay was told %d times, %d of them after it was recorded that it had been", again, again-times)
	}
	for _, kind := range []notify.Kind{notify.Failed, notify.Recovered} {
		if times, _ := h.count(kind, "silent"); times > 0 {
			t.Errorf("a job that names nobody was told of: %s", kind)
		}
	}
}
