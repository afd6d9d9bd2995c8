package zkdev

import (
	"net"
	"sync"
	"time"
)

// A life is the goroutines from a start to the next stop: the owner of core, one that
// accepts, and a reader and a writer per connection. A restart makes a new one, so nothing
// of the old can be cancelled, closed or counted in it.
type life struct {
	listener net.Listener // nil without one
	inbox    chan func(*core)
	stopping chan struct{} // closed when the life ends
	over     chan struct{} // closed when nobody owns core any more

	mu      sync.Mutex
	stopped bool               // guarded by mu
	conns   map[*conn]struct{} // guarded by mu; those with a reader
	wg      sync.WaitGroup     // grows with mu held, and not once stopped
}

func newLife(owned *core, listener net.Listener) *life {
	l := &life{
		listener: listener,
		inbox:    make(chan func(*core)),
		stopping: make(chan struct{}),
		over:     make(chan struct{}),
		conns:    map[*conn]struct{}{},
	}
	l.wg.Go(func() { l.own(owned) })
	if listener != nil {
		l.wg.Go(l.accept)
	}
	return l
}

func (l *life) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// end stops all goroutines and waits for them.
func (l *life) end() {
	l.mu.Lock()
	if !l.stopped {
		l.stopped = true
		close(l.stopping)
		if l.listener != nil {
			_ = l.listener.Close()
		}
		for c := range l.conns {
			c.out.cut()
		}
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// call runs f on the owner goroutine and waits for it. It reports false when the life
// was over first.
func (l *life) call(f func(*core)) bool {
	done := make(chan struct{})
	select {
	case l.inbox <- func(c *core) { defer close(done); f(c) }:
		<-done // whoever has received it runs it
		return true
	case <-l.over:
		return false
	}
}

// post hands f to the owner goroutine. Nothing is lost but what comes when the
// life ends.
func (l *life) post(f func(*core)) bool {
	select {
	case l.inbox <- f:
		return true
	case <-l.stopping:
		return false
	}
}

// serve starts a connection's goroutines. It reports false when the life ends.
func (l *life) serve(nc net.Conn, client *Client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		_ = nc.Close()
		return false
	}
	c := newConn(nc, client)
	l.conns[c] = struct{}{}
	l.wg.Go(func() {
		c.read(l)
		l.mu.Lock()
		delete(l.conns, c)
		l.mu.Unlock()
	})
	l.wg.Go(c.out.write)
	return true
}

func (l *life) accept() {
	for {
		nc, err := l.listener.Accept()
		if err != nil {
			return // it was closed
		}
		l.serve(nc, nil)
	}
}

// own is the owner goroutine. It never waits for anything but its inbox, the next
// alarm, and the end.
func (l *life) own(c *core) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var armed time.Time
	for {
		if !c.alarm.Equal(armed) {
			armed = c.alarm
			timer.Reset(time.Until(armed))
		}
		select {
		case f := <-l.inbox:
			f(c)
		case <-timer.C:
			if !c.alarm.IsZero() {
				c.wake(time.Now())
			}
			armed = time.Time{}
		case <-l.stopping:
			c.stop()
			close(l.over)
			return
		}
	}
}
