package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// slowReads is a fake whose histories take as long as a test wants.
type slowReads struct {
	*fake

	took           time.Duration
	now, most, all atomic.Int64
}

func (s *slowReads) Histories(ctx context.Context, jobs []admin.JobStatus) ([][]history.Entry, error) {
	s.all.Add(1)
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	select {
	case <-time.After(s.took):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.fake.Histories(ctx, jobs)
}

// from has a request come from an address.
func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

// However many requests are given up, their readings end with them, and few are under way at once.
func TestGivenUpReadingsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := &slowReads{fake: newFake(), took: 10 * time.Second}
		for i := range 3 * perPage { // pages of different jobs are different readings
			f.jobs = append(f.jobs, admin.JobStatus{Name: fmt.Sprintf("zz-%03d", i), State: admin.StateUnowned})
		}
		s := serve(t, f, Options{})
		s.get("/jobs")
		ctx, giveUp := context.WithCancel(t.Context())
		for i := range 500 {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://localhost/timeline?q=zz-%03d", i), nil)
			r.RemoteAddr = fmt.Sprintf("198.51.100.%d:1", i%200)
			go s.handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		time.Sleep(time.Second)
		if n := f.now.Load(); n != maxReadings {
			t.Errorf("%d readings under way, want %d", n, maxReadings)
		}
		giveUp()
		synctest.Wait()
		if n, most := f.now.Load(), f.most.Load(); n != 0 || most != maxReadings {
			t.Errorf("%d readings continue for nobody, %d were under way at once", n, most)
		}
		began := time.Now()
		if s.get("/timeline?q=nightly"); time.Since(began) > f.took+time.Second {
			t.Errorf("somebody else's page took %v", time.Since(began))
		}
	})
}

// One address that asks for ever new things gets few of them. Another one does not notice.
func TestEverNewReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{})
		const seconds, rate = 20, 500
		var refused atomic.Int64
		var asking sync.WaitGroup
		for i := range seconds * rate {
			asking.Go(func() {
				if s.do(http.MethodGet, fmt.Sprintf("/api/v1/jobs/no-%d/why", i), from("198.51.100.1:1")).Code == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
			time.Sleep(time.Second / rate)
		}
		most := (perEach.burst+int((seconds*time.Second+maxWait)/perEach.every))/usual + 1
		if n := f.count("Job"); n > most || refused.Load() == 0 {
			t.Errorf("%d readings in %d s, want at most %d; %d refused", n, seconds, most, refused.Load())
		}
		if w := s.do(http.MethodGet, "/api/v1/jobs/nightly/why", from("203.0.113.7:1")); w.Code != http.StatusOK {
			t.Errorf("somebody else: %d", w.Code)
		}
		asking.Wait() // else readings that wait for their budget are counted below
		before := f.count("Job")
		for range 10 { // that a job does not exist is kept, too
			if w := s.do(http.MethodGet, "/api/v1/jobs/nope/why", from("203.0.113.7:1")); w.Code != http.StatusNotFound {
				t.Errorf("no such job: %d", w.Code)
			}
		}
		if n := f.count("Job") - before; n != 1 {
			t.Errorf("%d readings of a job that does not exist", n)
		}
	})
}

// Who opens twenty jobs at once, with the run log, and then another one each second, for as long as
// he likes, is never refused and never waits.
func TestClicksAreNeverRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		const quick, clicks = 20, 220
		for i := range clicks {
			f.jobs = append(f.jobs, admin.JobStatus{Name: fmt.Sprint("job-", i), State: admin.StateUnowned})
		}
		s := serve(t, f, Options{History: &fakeLog{}, Group: "billing"})
		for i := range clicks {
			began := time.Now()
			if s.get(fmt.Sprint("/job?name=job-", i)); time.Since(began) > 0 {
				t.Errorf("click %d took %v", i, time.Since(began))
			}
			if i+1 >= quick {
				time.Sleep(time.Second)
			}
		}
		if n := f.count("Job"); n != clicks {
			t.Errorf("%d readings", n)
		}
	})
}

// The memory kept for others is bounded in bytes: the least used goes.
func TestKeptBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := &visitor{among: newVisitors(nil, nil), spent: perEach}
		ctx := context.WithValue(t.Context(), visitorKey{}, one)
		r, read := newReadings(time.Hour), 0
		const parts = 4
		large := [][]history.Entry{{{Run: history.Run{Error: strings.Repeat("e", maxKept/parts)}}}}
		get := func(key string) {
			_, err := detail(ctx, r, key, func(context.Context) ([][]history.Entry, error) {
				read++
				return large, nil
			})
			if err != nil || r.bytes > maxKept {
				t.Errorf("%s: %v, %d bytes are kept", key, err, r.bytes)
			}
		}
		for _, key := range []string{"a", "b", "c", "a", "d", "a", "e", "a"} {
			get(key)
		}
		if read != 5 {
			t.Errorf("%d readings of 5 things: what is used is not kept", read)
		}
		if get("b"); read != 6 {
			t.Errorf("%d readings: what is not used is kept", read)
		}
	})
}

// stuck is a body, or a reader, that never comes to an end.
type stuck struct{ until chan struct{} }

func (s stuck) Read([]byte) (int, error) {
	<-s.until
	return 0, io.EOF
}

// stuckWriter is a client that does not read.
type stuckWriter struct {
	http.ResponseWriter
	stuck
}

func (s stuckWriter) Write(text []byte) (int, error) {
	<-s.until
	return len(text), nil
}

// Turns are held neither by bodies that do not come nor by clients that do not read.
func TestSlowClientsHoldNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		s := serve(t, newFake(), Options{AllowActions: true, Token: token})
		end := stuck{make(chan struct{})}
		ask := func(method, path, kind string, w http.ResponseWriter) {
			r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, end)
			r.Header.Set("Content-Type", kind)
			s.handler.ServeHTTP(w, r)
		}
		for range 2 * maxTurns {
			go ask(http.MethodGet, "/job?name=nightly", "multipart/form-data; boundary=x", httptest.NewRecorder())
			go ask(http.MethodPost, "/api/v1/jobs/nightly/pause", "multipart/form-data; boundary=x", httptest.NewRecorder())
			go ask(http.MethodPost, "/api/v1/jobs/nightly/pause", "application/x-www-form-urlencoded", httptest.NewRecorder())
			go ask(http.MethodGet, "/api/v1/jobs", "", stuckWriter{httptest.NewRecorder(), end})
		}
		synctest.Wait()
		began := time.Now()
		if s.get("/"); time.Since(began) != 0 {
			t.Errorf("a page took %v", time.Since(began))
		}
		close(end.until)
	})
}

// The body of a GET is not read, not even its form.
func TestGETHasNoBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		w := serve(t, newFake(), Options{}).do(http.MethodGet, "/job", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nnightly\r\n--x--\r\n")), 70
			r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		})
		if w.Code != http.StatusNotFound || w.Header().Get("Connection") != "close" {
			t.Errorf("%d, headers %v", w.Code, w.Header())
		}
	})
}

// Those who have no token log a short line now and then, whatever they send.
func TestLogIsNotFlooded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		for _, here := range []bool{false, true} {
			log := new(bytes.Buffer)
			s := serve(t, newFake(), Options{AllowActions: true, ActionsFromHere: here, Token: token, Logger: slog.New(slog.NewTextHandler(log, nil))})
			flood := sent{path: "jobs/" + strings.Repeat("x", 1000) + "/cancel", form: form("token", "wrong", "by", strings.Repeat("\x01", 20_000))}
			for range 200 {
				s.post(flood)
			}
			const most = 300
			if n := strings.Count(log.String(), "\n"); n != 1 || log.Len() > most {
				t.Errorf("%d lines, %d bytes logged: %.500s", n, log.Len(), log)
			}
			time.Sleep(refusedEvery)
			if s.post(flood); !strings.Contains(log.String(), "count=200") {
				t.Errorf("not counted:\n%s", log)
			}
		}
		log := new(bytes.Buffer)
		s := serve(t, newFake(), Options{AllowActions: true, Token: token, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if s.post(sent{path: "jobs/nightly/pause", form: form("by", strings.Repeat("\x01", 20_000))}); log.Len() > 1000 {
			t.Errorf("%d bytes logged of an action", log.Len())
		}
	})
}

// A page of another site gets nothing. A link in a mail opens.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{})
		for _, row := range []struct {
			site, mode, dest string
			want             int
		}{
			{"", "", "", 200}, {"none", "navigate", "document", 200}, {"same-origin", "cors", "empty", 200},
			{"cross-site", "navigate", "document", 200}, {"same-site", "navigate", "document", 200},
			{"cross-site", "no-cors", "empty", 403}, {"cross-site", "no-cors", "image", 403}, {"same-site", "cors", "empty", 403},
			{"cross-site", "navigate", "iframe", 403}, {"cross-site", "navigate", "object", 403}, {"cross-site", "navigate", "", 403},
		} {
			for _, path := range []string{"/", "/api/v1/jobs/nightly/why", "/style.css"} {
				w := s.do(http.MethodGet, path, func(r *http.Request) {
					for name, value := range map[string]string{"Site": row.site, "Mode": row.mode, "Dest": row.dest} {
						if value != "" {
							r.Header.Set("Sec-Fetch-"+name, value)
						}
					}
				})
				if w.Code != row.want {
					t.Errorf("%s, %+v: %d", path, row, w.Code)
				}
			}
		}
		if w := s.do(http.MethodGet, "/api/v1/events", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); w.Code != http.StatusForbidden {
			t.Errorf("a stream: %d", w.Code)
		}
	})
}

// A client is the address that connects, or the one named by a proxy that the options list.
func TestClients(t *testing.T) {
	t.Parallel()
	v := newVisitors(nil, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")})
	for _, row := range []struct{ remote, forwarded, want string }{
		{"198.51.100.1:5", "", "198.51.100.1/32"}, {"198.51.100.1:5", "203.0.113.7", "198.51.100.1/32"},
		{"127.0.0.1:5", "203.0.113.7", "203.0.113.7/32"}, {"127.0.0.1:5", "6.6.6.6, 203.0.113.7, 10.1.1.1", "203.0.113.7/32"},
		{"127.0.0.1:5", "", "127.0.0.1/32"}, {"127.0.0.1:5", "203.0.113.7, unknown", "127.0.0.1/32"},
		{"[::ffff:10.2.3.4]:5", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"}, {"[fe80::1%eth0]:5", "", "fe80::/64"}, {"@", "1.1.1.1", "invalid Prefix"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = row.remote
		if row.forwarded != "" {
			r.Header.Set("X-Forwarded-For", row.forwarded)
		}
		if got := network(v.client(r)).String(); got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
	}
}
