package task

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Mailbox queues closures for the goroutine that owns the state they access.
// Posts are never dropped before Close and keep their order. Ready only signals that there
// are some, and signals merge.
type Mailbox struct {
	mu     sync.Mutex
	first  []post // run before posts
	posts  []post
	closed bool
	ready  chan struct{}
}

type post struct{ f, closed func() }

// NewMailbox returns an empty mailbox.
func NewMailbox() *Mailbox { return &Mailbox{ready: make(chan struct{}, 1)} }

// Post queues f, unless the mailbox is closed. It never blocks and is safe for concurrent use.
func (m *Mailbox) Post(f func()) { m.PostOr(f, func() {}) }

// PostOr is Post; closed is called if f is never run because the mailbox is, or will be, closed.
func (m *Mailbox) PostOr(f, closed func()) {
	m.post(&m.posts, post{f, closed})
}

// PostFirst queues f before everything that Post has queued.
func (m *Mailbox) PostFirst(f func()) { m.post(&m.first, post{f, func() {}}) }

func (m *Mailbox) post(to *[]post, p post) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		p.closed()
		return
	}
	*to = append(*to, p)
	m.mu.Unlock()
	m.signal()
}

func (m *Mailbox) signal() {
	select {
	case m.ready <- struct{}{}:
	default: // Run handles all posts at each wake-up
	}
}

// Ready returns a channel that receives when there may be posts to run.
func (m *Mailbox) Ready() <-chan struct{} { return m.ready }

// Run runs the closures posted so far, in order.
func (m *Mailbox) Run() { m.RunFor(math.MaxInt64) }

// RunFor is Run, but it stops when d has passed, and Ready receives again if closures are left.
func (m *Mailbox) RunFor(d time.Duration) {
	m.mu.Lock()
	first, posts := m.first, m.posts
	m.first, m.posts = nil, nil
	m.mu.Unlock()
	for _, p := range first {
		p.f()
	}
	begun := time.Now()
	for i, p := range posts {
		if i > 0 && time.Since(begun) >= d {
			m.mu.Lock()
			m.posts = append(posts[i:], m.posts...)
			m.mu.Unlock()
			m.signal()
			return
		}
		posts[i] = post{} // what is left of posts may wait for long
		p.f()
	}
}

// Close drops the queued posts, and all that are posted from now on.
func (m *Mailbox) Close() {
	m.mu.Lock()
	posts := slices.Concat(m.first, m.posts)
	m.first, m.posts, m.closed = nil, nil, true
	m.mu.Unlock()
	for _, p := range posts {
		p.closed()
	}
}
