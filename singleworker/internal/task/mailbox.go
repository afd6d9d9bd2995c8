package task

import "sync"

// Mailbox queues closures for the goroutine that owns the state they access.
// Posts are never dropped before Close and keep their order. Ready only signals that there
// are some, and signals merge.
type Mailbox struct {
	mu     sync.Mutex
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
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		closed()
		return
	}
	m.posts = append(m.posts, post{f, closed})
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default: // Run handles all posts at each wake-up
	}
}

// Ready returns a channel that receives when there may be posts to run.
func (m *Mailbox) Ready() <-chan struct{} { return m.ready }

// Run runs the closures posted so far, in order.
func (m *Mailbox) Run() {
	m.mu.Lock()
	posts := m.posts
	m.posts = nil
	m.mu.Unlock()
	for _, p := range posts {
		p.f()
	}
}

// Close drops what is queued, and all that is posted from now on.
func (m *Mailbox) Close() {
	m.mu.Lock()
	posts := m.posts
	m.posts, m.closed = nil, true
	m.mu.Unlock()
	for _, p := range posts {
		p.closed()
	}
}
