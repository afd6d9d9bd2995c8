package commands

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// watched is one of each kind.
func watched() []admin.Event {
	entries := nightlyEntries()
	at := func(kind admin.EventKind, ev admin.Event) admin.Event {
		ev.Kind, ev.Zxid, ev.Cursor, ev.At = kind, 4294967313, 4294967312, testNow
		return ev
	}
	begun := entries[1]
	begun.State, begun.Ended, begun.Error = history.StateRunning, time.Time{}, ""
	late := judged(admin.JobStatus{Name: "nightly", State: admin.StateOwned, Overdue: testNow.Add(-time.Hour)})
	return []admin.Event{
		at(admin.EventWatching, admin.Event{}),
		at(admin.EventJobSubmitted, admin.Event{Job: "nightly"}),
		at(admin.EventJobChanged, admin.Event{Job: "nightly", Version: 3, Paused: true, Unseen: 2}),
		at(admin.EventJobOwned, admin.Event{Job: "nightly", Owner: &admin.Owner{InstanceID: "app-2", Token: 4294967313, Since: testNow}, Previous: "app-1", Unseen: 1}),
		at(admin.EventJobUnowned, admin.Event{Job: "nightly", Previous: "app-2"}),
		at(admin.EventJobTrouble, admin.Event{Job: "nightly", Status: &late}),
		at(admin.EventJobTrouble, admin.Event{Job: "nightly", Status: &admin.JobStatus{Name: "nightly", State: admin.StateOwned}, Gone: []string{"nightly[1]"}}),
		at(admin.EventRunBegun, admin.Event{Job: "nightly", Entry: &begun}),
		at(admin.EventRunEnded, admin.Event{Job: "nightly", Entry: &entries[1], Repeated: true}),
		at(admin.EventRunEnded, admin.Event{Job: "nightly", Entry: &entries[5], Amended: true}),
		at(admin.EventTicksSkipped, admin.Event{Job: "import[3]", Entry: &entries[3], Continued: true}),
		at(admin.EventTicksMissed, admin.Event{Job: "import[3]", Entry: &entries[4]}),
		at(admin.EventInstanceJoined, admin.Event{InstanceID: "app-1", Incarnation: "1", State: admin.InstanceActive}),
		at(admin.EventInstanceState, admin.Event{InstanceID: "app-1", Incarnation: "1", State: admin.InstanceDrained, PreviousState: admin.InstanceActive}),
		{Kind: admin.EventInstanceLeft, Zxid: 4294967314, Cursor: 4294967314, InstanceID: "app-1", Incarnation: "1"},
		{Kind: admin.EventGap, Zxid: 4294967314, Cursor: 4294967314, Job: "nightly", Gap: &admin.Gap{What: admin.GapRuns, After: 4294967300}},
		{Kind: admin.EventGap, Zxid: 4294967314, Cursor: 4294967314, Gap: &admin.Gap{What: admin.GapJobs, After: 4294967300}},
		{Kind: admin.EventGap, Zxid: 4294967314, Cursor: 4294967314, Gap: &admin.Gap{What: admin.GapInstances, After: 4294967300, Count: 2}},
		{Kind: admin.EventGap, Zxid: 4294967314, Cursor: 4294967314, Job: "broken", Gap: &admin.Gap{What: admin.GapRecord, After: 4294967300, Error: "tick record \"z\x1b\": invalid"}},
		{Kind: admin.EventJobCanceled, Zxid: 4294967315, Cursor: 4294967315, Job: "レポート"},
	}
}

func TestWatchGolden(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, args := range [][]string{
		{"watch"}, {"watch", "-o", "jsonl"}, {"watch", "nightly", "nobody", "--since", "0x100000011"},
		{"watch", "--since", "x"}, {"watch", "nightly[1]"},
	} {
		h := newHarness(t)
		h.fake.events = watched()
		call := "Watch [] since 0"
		if len(args) > 3 {
			call, h.fake.events = "Watch [nightly nobody] since 4294967313", nil
		}
		h.fake.fail[call] = fmt.Errorf("watch: %w", admin.ErrDenied)
		texts = append(texts, h.transcript(args...))
	}
	golden(t, "watch", strings.Join(texts, "\n"))
}

// stream is output that another goroutine reads.
type stream struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *stream) lines() (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for scan := bufio.NewScanner(bytes.NewReader(s.out.Bytes())); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	return lines
}

// On a group, each event is printed as it happens, until a signal ends the command well.
func TestWatchOnGroup(t *testing.T) {
	t.Parallel()
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		out := &stream{}
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan cmdline.ExitCode)
		watcher := *h.App
		watcher.Stdout, watcher.Stderr = out, out
		go func() { ended <- watcher.Run(ctx, []string{"watch", "weekly"}) }()
		time.Sleep(time.Second)
		synctest.Wait()
		for _, args := range [][]string{{"submit", "weekly", "@weekly"}, {"trigger", "weekly", "--wait"}, {"cancel", "weekly", "--yes"}} {
			h.exec(args...)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute) // the command is not over after the default of --timeout
		synctest.Wait()
		text := strings.Join(out.lines(), "\n")
		for _, want := range []string{"watching", "weekly                submitted", "owned by app-2", "run ", ": ok after", "canceled"} {
			if at := strings.Index(text, want); at < 0 {
				t.Errorf("no %q in\n%s", want, text)
			} else {
				text = text[at:]
			}
		}
		cancel(&cmdline.SignalError{Signal: syscall.SIGINT})
		if code := <-ended; code != cmdline.ExitOK {
			t.Errorf("exit %d", code)
		}
	})
}

// What takes no output ends it.
func TestWatchOutputFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.events = watched()
	h.Stdout = failing{}
	if code := h.Run(context.Background(), []string{"watch"}); code != cmdline.ExitOutput {
		t.Errorf("exit %d", code)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space") }
