package task

import "sync"

// Mailbox queues closures for the one goroutine that owns what they touch.
// Facts are posted, so none is dropped and their order is kept; Ready only
// says that there are some, and merges.
type Mailbox struct {
	mu    sync.Mutex
	posts []func()
	ready chan struct{}
}

// NewMailbox returns an empty mailbox.
func NewMailbox() *Mailbox { return &Mailbox{ready: make(chan struct{}, 1)} }

// Post queues f. It never blocks and may be called by anybody.
func (m *Mailbox) Post(f func()) {
	m.mu.Lock()
	m.posts = append(m.posts, f)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default: // Run takes all posts at each wake-up
	}
}

// Ready receives when there may be posts to run.
func (m *Mailbox) Ready() <-chan struct{} { return m.ready }

// Run runs what was posted until now, in order.
func (m *Mailbox) Run() {
	m.mu.Lock()
	posts := m.posts
	m.posts = nil
	m.mu.Unlock()
	for _, f := range posts {
		f()
	}
}
