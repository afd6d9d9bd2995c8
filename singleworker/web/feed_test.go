package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// watched is a fake whose watch reports a test's events.
type watched struct {
	*fake

	events  chan admin.Event
	since   []int64 // of each watch
	running int
}

// newWatched has the watch end before the bubble does.
func newWatched(t *testing.T) *watched {
	t.Helper()
	t.Cleanup(func() { time.Sleep(linger + time.Second) })
	return &watched{fake: newFake(), events: make(chan admin.Event)}
}

func (f *watched) Watch(ctx context.Context, o admin.WatchOptions) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		f.mu.Lock()
		f.since, f.running = append(f.since, o.Since), f.running+1
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			f.running--
			f.mu.Unlock()
		}()
		for {
			select {
			case ev, ok := <-f.events:
				if !ok {
					yield(admin.Event{}, admin.ErrDenied)
					return
				}
				if !yield(ev, nil) {
					return
				}
			case <-ctx.Done():
				yield(admin.Event{}, ctx.Err())
				return
			}
		}
	}
}

// watches are the cursors from which the watches have resumed, and how many are in progress.
func (f *watched) watches() (since string, running int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.since), f.running
}

func (f *watched) send(cursors ...int64) {
	for _, cursor := range cursors {
		f.events <- admin.Event{Kind: admin.EventJobChanged, Job: "nightly", Zxid: cursor, Cursor: cursor}
	}
}

// stream is a viewer that reads when it wants to.
type stream struct {
	header http.Header
	pipe   *io.PipeWriter
	lines  *bufio.Reader
	leave  context.CancelFunc
	ended  chan struct{}
	status int
	reads  int // deadlines for reading that were lifted
}

func (s *stream) Header() http.Header                { return s.header }
func (s *stream) Write(text []byte) (int, error)     { return s.pipe.Write(text) }
func (s *stream) WriteHeader(status int)             { s.status = status }
func (s *stream) FlushError() error                  { return nil }
func (s *stream) SetWriteDeadline(_ time.Time) error { return nil }
func (s *stream) SetReadDeadline(at time.Time) error {
	if at.IsZero() {
		s.reads++
	}
	return nil
}

// follow opens a stream.
func follow(t *testing.T, handler http.Handler, last string) *stream {
	t.Helper()
	return followFrom(t, handler, last, "192.0.2.1:1234")
}

func followFrom(t *testing.T, handler http.Handler, last, address string) *stream {
	t.Helper()
	out, in := io.Pipe()
	ctx, leave := context.WithCancel(t.Context())
	s := &stream{header: http.Header{}, pipe: in, lines: bufio.NewReader(out), leave: leave, ended: make(chan struct{})}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events", nil)
	r.RemoteAddr = address
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	go func() {
		defer close(s.ended)
		handler.ServeHTTP(s, r)
		_ = in.Close()
	}()
	t.Cleanup(func() {
		leave()
		_ = out.Close()
		<-s.ended
	})
	return s
}

// next is the next frame, as "id event", or "end" when the stream has ended.
func (s *stream) next() string {
	var id, kind, data string
	silent := 0
	for {
		line, err := s.lines.ReadString('\n')
		switch line = strings.TrimSuffix(line, "\n"); {
		case err != nil:
			return "end"
		case line == "" && data != "" || line == "" && id != "":
			return strings.TrimSpace(id + " " + kind)
		case strings.HasPrefix(line, ":"):
			if silent++; silent == 4 {
				return "silence"
			}
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "event: "):
			kind = line[7:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
			if kind == "" {
				kind = "change"
			}
		}
	}
}

func (s *stream) wants(t *testing.T, want ...string) {
	t.Helper()
	for _, one := range want {
		if got := s.next(); got != one {
			t.Errorf("got %q, want %q", got, one)
		}
	}
}

// Viewers share one watch, which ends when nobody has looked for a while; one that comes back gets
// the events that it has missed.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newWatched(t)
		s := serve(t, f, Options{})
		a := follow(t, s.handler, "")
		synctest.Wait()
		b := follow(t, s.handler, "")
		synctest.Wait()
		go f.send(100, 200, 200, 300) // two of them were reported together
		a.wants(t, "100 change", "200 change", "200 change", "300 change")
		b.wants(t, "100 change", "200 change", "200 change", "300 change")
		if a.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("headers %v", a.header)
		}
		follow(t, s.handler, "").wants(t, "300")
		follow(t, s.handler, "200").wants(t, "200 change", "300 change")
		follow(t, s.handler, "250").wants(t, "200 change", "300 change")
		follow(t, s.handler, "99").wants(t, "300 reset")
		future := follow(t, s.handler, "999")
		future.wants(t, "300 reset")
		go f.send(1000)
		future.wants(t, "1000 change")
		b.leave()
		if since, running := f.watches(); since != "[0]" || running != 1 {
			t.Errorf("watches since %s, %d in progress", since, running)
		}
	})
}

func TestTheWatchEndsAndResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newWatched(t)
		s := serve(t, f, Options{})
		a := follow(t, s.handler, "")
		go f.send(100)
		a.wants(t, "100 change")
		a.leave()
		time.Sleep(linger / 2)
		b := follow(t, s.handler, "100") // a click on a link
		time.Sleep(linger)
		go f.send(150)
		b.wants(t, "150 change")
		b.leave()
		time.Sleep(linger + time.Second)
		if _, running := f.watches(); running != 0 {
			t.Error("the watch continues without viewers")
		}
		c := follow(t, s.handler, "150")
		go f.send(160)
		c.wants(t, "160 change")
		close(f.events)
		c.wants(t, "end")
		if since, running := f.watches(); since != "[0 150]" || running != 0 {
			t.Errorf("watches since %s, %d in progress", since, running)
		}
	})
}

// readers counts the readings of all jobs.
type readers struct {
	*watched

	lists int
}

func (c *readers) Group(ctx context.Context) (admin.Group, error) {
	c.mu.Lock()
	c.lists++
	c.mu.Unlock()
	return c.watched.Group(ctx)
}

// A large group at rest is read as often as by a page that is open, every 15 s, however many look
// at it, and at once when something has happened.
func TestLargeGroupAtRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := &readers{watched: newWatched(t)}
		for i := range 10_000 {
			f.jobs = append(f.jobs, admin.JobStatus{Name: fmt.Sprintf("zz-%05d", i), State: admin.StateUnowned})
		}
		s := serve(t, f, Options{})
		a := follow(t, s.handler, "")
		go f.send(100)
		a.wants(t, "100 change")
		look := func(d time.Duration) (lists int) {
			before := f.lists
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				s.get("/api/v1/jobs?limit=1")
			}
			return f.lists - before
		}
		if n := look(45*time.Second - 50*time.Millisecond); n != 3 {
			t.Errorf("%d readings in 45 s of rest, want 3", n)
		}
		look(3 * time.Second)
		go f.send(200)
		a.wants(t, "200 change")
		if n := look(150 * time.Millisecond); n != 1 {
			t.Errorf("%d readings right after a change, want 1", n)
		}
		go f.send(300)
		a.wants(t, "300 change")
		if n := look(defaultPeriod / 2); n != 0 {
			t.Errorf("%d readings within a period, want none", n)
		}
		if n := look(defaultPeriod / 2); n != 1 {
			t.Errorf("%d readings after a period, want 1", n)
		}
	})
}

// A viewer that does not keep up delays nobody, is cut, and comes back for the rest.
func TestSlowViewers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newWatched(t)
		s := serve(t, f, Options{})
		fast, slow := follow(t, s.handler, ""), follow(t, s.handler, "")
		synctest.Wait() // both have joined
		const n = 2 * queueLength
		for i := range int64(n) {
			f.send(i + 1)
			fast.wants(t, fmt.Sprintf("%d change", i+1))
		}
		last, got := "", 0
		for frame := slow.next(); frame != "end"; frame = slow.next() {
			last, _, _ = strings.Cut(frame, " ")
			got++
		}
		if got < queueLength || got > queueLength+2 || last != strconv.Itoa(got) {
			t.Errorf("the slow one was sent %d events, the last of them %s", got, last)
		}
		again := follow(t, s.handler, last)
		for i := got; i < n; i++ {
			again.wants(t, fmt.Sprintf("%d change", i+1))
		}
		for i := range int64(ringLength) {
			f.send(n + i + 1)
			fast.wants(t, fmt.Sprintf("%d change", n+i+1))
		}
		follow(t, s.handler, last).wants(t, fmt.Sprintf("%d reset", n+ringLength))
		follow(t, s.handler, strconv.Itoa(n+ringLength-1)).wants(t, fmt.Sprintf("%d change", n+ringLength))
	})
}

// A silent stream says that it lives. Too many viewers are refused, and so are invalid cursors.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newWatched(t)
		s := serve(t, f, Options{})
		a := follow(t, s.handler, "")
		for _, want := range []string{"retry: 3000", "", ": alive", "", ": alive"} {
			if line, err := a.lines.ReadString('\n'); err != nil || strings.TrimSpace(line) != want {
				t.Errorf("%q, %v, want %q", line, err, want)
			}
		}
		for _, bad := range []string{"x", "-1", "0", "99999999999999999999"} {
			if w := s.do(http.MethodGet, "/api/v1/events?since="+bad, nil); w.Code != http.StatusBadRequest {
				t.Errorf("since %s: %d", bad, w.Code)
			}
		}
		for range maxViewers - 1 {
			follow(t, s.handler, "")
		}
		synctest.Wait()
		if w := s.do(http.MethodGet, "/api/v1/events", nil); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), errCrowded.Error()) {
			t.Errorf("one too many: %d %s", w.Code, w.Body)
		}
		if !errors.Is(errCrowded, admin.ErrUnavailable) {
			t.Error("not a passing condition")
		}
	})
}

// No cursor that a viewer makes up is where the watch begins, nor are others told it.
func TestNoViewerMovesTheCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newWatched(t)
		s := serve(t, f, Options{})
		liar := follow(t, s.handler, "9223372036854775807")
		synctest.Wait()
		honest := follow(t, s.handler, "90")
		fresh := follow(t, s.handler, "")
		synctest.Wait()
		go f.send(100, 110)
		liar.wants(t, "100 reset", "110 change")
		honest.wants(t, "100 reset", "110 change")
		fresh.wants(t, "100 change", "110 change")
		for _, one := range []*stream{liar, honest, fresh} {
			one.leave()
		}
		time.Sleep(linger + time.Second)
		liar = follow(t, s.handler, "9223372036854775807")
		synctest.Wait()
		go f.send(120)
		liar.wants(t, "120 reset")
		follow(t, s.handler, "").wants(t, "120")
		if since, _ := f.watches(); since != "[0 0]" {
			t.Errorf("watches since %s", since)
		}
	})
}

// Who has most of the streams makes room for others.
func TestStreamsOfManyAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newWatched(t)
		s := serve(t, f, Options{})
		greedy := make([]*stream, maxViewers)
		for i := range greedy {
			greedy[i] = follow(t, s.handler, "")
			synctest.Wait()
		}
		other := followFrom(t, s.handler, "", "198.51.100.1:1")
		synctest.Wait()
		greedy[0].wants(t, "end")
		go f.send(100)
		other.wants(t, "100 change")
		greedy[1].wants(t, "100 change")
		if other.reads != 1 {
			t.Error("the server's time for requests ends the stream")
		}
	})
}
