package zkconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/task"
)

var errExpired = errors.New("the session has expired")

// session is one session, with a separate connection of the library. The library could begin the
// next session itself, but would send there the requests that it had not yet sent in this one: a
// process that was stopped for a while would overwrite its successor's writes.
type session struct {
	conn    *Conn
	chance  *chance.Source
	zk      *zk.Conn
	begun   chan struct{}   // closed when zk is set
	over    context.Context //nolint:containedctx // ends with the session
	end     context.CancelFunc
	expired atomic.Bool
	ended   chan struct{} // closed when the library's loop has ended
	current atomic.Pointer[handshake]
	zxid    atomic.Int64 // the last transaction that a reply told of
	// doubtful is set while the latest attempt to connect may have failed because of zxid.
	doubtful atomic.Bool

	ready chan struct{} // closed when calls can be made
	// refused is why no call can be made; set before ready is closed.
	refused error

	mu       sync.Mutex
	singly   watches          // that the library sets, and sets again in the next connection
	together watches          // that bulk requests set
	bulks    map[string]*bulk // bulk requests under way, by the path of the request that stands for each
	tokens   int              // bulk requests so far
}

type watch struct {
	path     string
	children bool
}

// watches are who sets which, or has: nil is the library. They are by whether children are watched,
// and by path: there are tens of thousands, and a map by both would be a third larger.
type watches map[bool]map[string]*setter

func newWatches() watches { return watches{false: {}, true: {}} }

// begin makes a new session the one in which calls are made.
func (c *Conn) begin(source *chance.Source) error {
	s := &session{
		conn: c, chance: source, begun: make(chan struct{}), ended: make(chan struct{}), ready: make(chan struct{}),
		singly: newWatches(), together: newWatches(), bulks: make(map[string]*bulk),
	}
	s.over, s.end = context.WithCancel(c.closing)
	conn, events, err := zk.Connect(c.names, c.cfg.SessionTimeout,
		zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
			return c.dial(s, network, address)
		}),
		zk.WithHostProvider(provider{&c.servers, s}),
		zk.WithEventCallback(s.event), zk.WithMaxBufferSize(maxFrame),
		zk.WithLogInfo(false), zk.WithLogger(logAdapter{c.cfg.Logger}))
	if err != nil {
		s.end()
		return err
	}
	s.zk = conn
	c.session.Store(s)
	close(s.begun)
	c.tasks.Go("zookeeper events", func(context.Context) error {
		defer close(s.ended)
		for range events {
			continue // the callback handles them; this waits for the library's loop to end
		}
		return nil
	})
	c.tasks.Go("zookeeper authentication", func(context.Context) error {
		s.authenticate(c.cfg.Auth)
		return nil
	})
	return nil
}

// wait waits until the session has expired or its Conn is closed, and ends the library's
// connection. It reports whether another session is to begin.
func (s *session) wait() (another bool) {
	<-s.over.Done()
	if conn := s.current.Load(); conn != nil && !conn.answered.Load() {
		s.hangUp() // there is no session to end, but the library would wait for a reply
	}
	if s.conn.closing.Err() == nil {
		s.conn.tasks.Go("zookeeper close", func(context.Context) error {
			s.zk.Close() // may wait for an answer that nobody gives
			return nil
		})
		<-s.ended // its last event comes before the first of the next
	} else {
		s.zk.Close()
	}
	s.hangUp() // the library has waited for the reply
	return s.conn.closing.Err() == nil
}

// hangUp closes the connection in use, if any.
func (s *session) hangUp() {
	if conn := s.current.Load(); conn != nil {
		_ = conn.Close()
	}
}

// authenticate sends the credentials before any other request. The library repeats them on each
// reconnect.
func (s *session) authenticate(auth string) {
	defer close(s.ready)
	retry := task.Backoff{Min: 50 * time.Millisecond, Max: time.Second, Jitter: s.chance.Jitter("auth")}
	for auth != "" {
		err := opError("auth", "/", s.zk.AddAuth("digest", []byte(auth)))
		switch {
		case err == nil:
			return
		case !IsUnknown(err):
			s.refused = err
			return
		}
		if retry.Wait(s.over) != nil {
			s.refused = &OpError{Op: "auth", Path: "/", Err: ErrLost}
			return
		}
	}
}

// event translates the library's events, on the library's goroutine.
func (s *session) event(ev zk.Event) {
	report := s.conn.tell
	switch {
	case ev.Type != zk.EventSession:
		s.mu.Lock()
		for _, watched := range []watches{s.singly, s.together} {
			delete(watched[false], ev.Path)
			delete(watched[true], ev.Path)
		}
		s.mu.Unlock()
		report(Event{Kind: NodeChanged, Path: strings.TrimPrefix(ev.Path, s.conn.chroot), Gone: ev.Type == zk.EventNodeDeleted})
	case ev.State == zk.StateHasSession:
		s.conn.longest.Store(max(s.conn.longest.Load(), s.conn.granted.Load()))
		s.forgetBulkWatches()
		report(Event{Kind: Connected})
	case ev.State == zk.StateDisconnected:
		report(Event{Kind: Disconnected})
	case ev.State == zk.StateExpired:
		s.expired.Store(true)
		report(Event{Kind: Expired})
		s.end() // afterwards: another goroutine closes the session then, and tells the end of its watches
	}
}

// watching runs request, which sets a watch if one is wanted and not already set: the library would
// keep every duplicate. One that a bulk request sets does not count, for it ends with the
// connection, and may not be set yet.
func (s *session) watching(w watch, wanted bool, request func(set bool) error) error {
	s.mu.Lock()
	_, already := s.singly[w.children][w.path]
	set := wanted && !already
	if set {
		s.singly[w.children][w.path] = nil
	}
	s.mu.Unlock()
	err := request(set)
	if err != nil && set {
		s.mu.Lock()
		delete(s.singly[w.children], w.path)
		s.mu.Unlock()
	}
	return err
}

// provider is the library's view of the servers for one session.
type provider struct {
	*hosts

	session *session
}

var _ zk.HostProvider = provider{}

// Next returns the server to try. After the session has expired it makes the library fail the
// requests that it has not sent, and wait until it is closed.
func (p provider) Next() (server string, retryStart bool) {
	if p.session.expired.Load() {
		return "", true
	}
	return p.hosts.Next()
}
