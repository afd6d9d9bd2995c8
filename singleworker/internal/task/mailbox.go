package task

import "sync"

// Mailbox queues closures for the goroutine that owns the state they access.
// Posts are never dropped and keep their order. Ready only signals that there
// are some, and signals merge.
type Mailbox struct {
	mu    sync.Mutex
	posts []func()
	ready chan struct{}
}

// NewMailbox returns an empty mailbox.
func NewMailbox() *Mailbox { return &Mailbox{ready: make(chan struct{}, 1)} }

// Post queues f. It never blocks and is safe for concurrent use.
func (m *Mailbox) Post(f func()) {
	m.mu.Lock()
	m.posts = append(m.posts, f)
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
	for _, f := range posts {
		f()
	}
}
