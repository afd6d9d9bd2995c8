package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/web"
)

// refresh is how often the script of a page reads it again when nothing happens.
const refresh = 15 * time.Second

// pages measures the viewers' cost to ZooKeeper: one with a page that is open, a hundred, and one
// who asks for another time of another job a hundred times a second. Each has a separate loopback
// address. Beside all requests that the server gets, it tells those that the pages send: instances
// read everything again now and then, in a group of 10,000 jobs for minutes.
func (g *group) pages() {
	g.t.Helper()
	if !g.wants("pages") {
		return
	}
	var sent atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return counted{conn, &sent}, err
	}
	client, err := admin.Dial(g.t.Context(), admin.Config{Servers: g.server.Addr(), ServerType: serverType, Dial: dial})
	if err != nil {
		g.t.Fatal(err)
	}
	defer client.Close()
	handler, err := web.Handler(client, web.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		g.t.Fatal(err)
	}
	site := httptest.NewServer(handler)
	defer site.Close()
	one := func(ctx context.Context, k int) { open(ctx, site.URL, k) }
	g.look("one", 1, &sent, one)
	g.look("hundred", 100, &sent, one)
	g.look("hostile", 1, &sent, func(ctx context.Context, k int) { attack(ctx, site.URL, k, g.Jobs) })
}

// counted counts requests, of which each begins with its length.
type counted struct {
	net.Conn

	sent *atomic.Int64
}

func (c counted) Write(frames []byte) (int, error) {
	const head = 4
	for rest := frames; len(rest) >= head; rest = rest[min(len(rest), head+int(binary.BigEndian.Uint32(rest))):] {
		c.sent.Add(1)
	}
	return c.Conn.Write(frames)
}

// look measures the requests while some look.
func (g *group) look(name string, viewers int, sent *atomic.Int64, open func(ctx context.Context, k int)) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	var all sync.WaitGroup
	for k := range viewers {
		all.Go(func() { open(ctx, k) })
	}
	time.Sleep(g.settle)
	before, own, begun := g.requests(), sent.Load(), time.Now()
	time.Sleep(min(g.window, 8*refresh))
	seconds := time.Since(begun).Seconds()
	l := newLine("Pages/"+name, g.size).add(g.requestsSince(before)/seconds, "req/s").add(float64(sent.Load()-own)/seconds, "pages-req/s")
	cancel()
	all.Wait()
	g.print(l)
}

// open has the events of a group sent to viewer k, and reads a page again and again, as a browser
// does.
func open(ctx context.Context, url string, k int) {
	browser := from(k)
	var all sync.WaitGroup
	defer all.Wait()
	changed := make(chan struct{}, 1)
	all.Go(func() {
		for ctx.Err() == nil {
			if body := get(ctx, browser, url+"/api/v1/events"); body != nil {
				for lines := bufio.NewScanner(body); lines.Scan(); {
					select {
					case changed <- struct{}{}:
					default:
					}
				}
				_ = body.Close()
			}
			sleep(ctx, time.Second)
		}
	})
	for ctx.Err() == nil {
		drain(get(ctx, browser, url+"/"))
		sleep(ctx, 2*time.Second)
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(refresh):
		}
	}
}

// attack asks for pages that nobody has asked for before.
func attack(ctx context.Context, url string, k, jobs int) {
	browser := from(k)
	var all sync.WaitGroup
	defer all.Wait()
	for i := 0; ctx.Err() == nil; i++ {
		at := time.Now().Add(-time.Duration(i) * time.Minute).UTC().Format(time.RFC3339)
		for _, path := range []string{"/job?name=" + JobName(i%jobs) + "&at=" + at, "/timeline?end=" + at} {
			all.Go(func() { drain(get(ctx, browser, url+path)) })
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

// from is a client with the address of viewer k.
func from(k int) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("127.0.1.%d", k+1))}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
}

// get returns the body of the answer, or nil.
func get(ctx context.Context, browser *http.Client, url string) io.ReadCloser {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil
	}
	answer, err := browser.Do(request)
	if err != nil {
		return nil
	}
	return answer.Body
}

func drain(body io.ReadCloser) {
	if body != nil {
		_, _ = io.Copy(io.Discard, body)
		_ = body.Close()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
