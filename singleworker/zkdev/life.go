package zkdev

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// acceptPause is how long the server waits after a failure to accept a connection.
const acceptPause = 100 * time.Millisecond

// A life is the goroutines from a start to the next stop: one for timers, one for each listener,
// and a reader and a writer per connection. A restart creates a new life, so that nothing left from
// the old one can affect it.
type life struct {
	listeners []net.Listener
	stopping  chan struct{} // closed when the life ends
	over      chan struct{} // closed, with owner held, when this life no longer owns core

	// owner guards core. It is never held while waiting for anything: the goroutine that has read
	// a request handles it, without handing it over.
	owner sync.Mutex
	core  *core
	less  sync.Cond // signaled when less has to be written to the Store, and at the end
	timer *time.Timer
	armed time.Time // when the timer fires; zero for never

	mu      sync.Mutex
	stopped bool               // guarded by mu
	conns   map[*conn]struct{} // guarded by mu; those with a reader or a writer
	room    int                // guarded by mu; how many connections there may be by TCP
	each    int                // guarded by mu; and of one address
	from    map[string]int     // guarded by mu; connections by address
	unsent  atomic.Int64       // what their clients have yet to read, in bytes
	wg      sync.WaitGroup     // Add only with mu held and before stopped
}

func newLife(owned *core, listeners ...net.Listener) *life {
	l := &life{
		listeners: listeners,
		stopping:  make(chan struct{}),
		over:      make(chan struct{}),
		core:      owned,
		timer:     time.NewTimer(time.Hour),
		conns:     map[*conn]struct{}{},
		room:      maxConns,
		each:      maxConnsEach,
		from:      map[string]int{},
	}
	l.less.L = &l.owner
	l.do(func(*core) {}) // sets the timer for sessions kept from the last life
	l.wg.Go(l.own)
	if owned.disk != nil {
		l.wg.Go(l.commit)
	}
	for _, listener := range listeners {
		l.wg.Go(func() { l.accept(listener) })
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

// end stops all goroutines and waits for them. When it returns, the address is free for the next
// life.
func (l *life) end() {
	l.halt()
	l.wg.Wait()
}

// halt stops all goroutines.
func (l *life) halt() {
	l.mu.Lock()
	if !l.stopped {
		l.stopped = true
		for _, listener := range l.listeners {
			_ = listener.Close()
		}
		for c := range l.conns {
			c.out.cut()
		}
		close(l.stopping)
	}
	l.mu.Unlock()
}

// do calls f with exclusive access to core. It returns false if the life is over.
func (l *life) do(f func(*core)) bool {
	l.owner.Lock()
	defer l.owner.Unlock()
	if l.isOver() {
		return false
	}
	f(l.core)
	if !l.core.alarm.Equal(l.armed) {
		l.armed = l.core.alarm
		l.timer.Reset(time.Until(l.armed))
	}
	return true
}

// serve starts a connection's goroutines. It returns false if the life has ended.
func (l *life) serve(nc net.Conn, client *Client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		_ = nc.Close()
		return false
	}
	c := newConn(nc, client, &l.unsent)
	l.do(func(k *core) { k.meet(c) }) // before the dial returns, so that Disconnect and Partition see it
	l.conns[c] = struct{}{}
	host := remoteIP(nc)
	l.from[host]++
	l.wg.Go(func() {
		var writer sync.WaitGroup
		writer.Go(c.out.write)
		c.read(l)
		writer.Wait() // end must find c until its last bytes are written
		l.mu.Lock()
		delete(l.conns, c)
		if l.from[host]--; l.from[host] == 0 {
			delete(l.from, host)
		}
		l.mu.Unlock()
	})
	return true
}

var (
	errTooMany     = errors.New("too many connections")
	errTooManyEach = errors.New("too many connections from this address")
)

// admit returns why there must not be another connection, or nil.
func (l *life) admit(nc net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.conns) >= l.room:
		return errTooMany
	case l.from[remoteIP(nc)] >= l.each:
		return errTooManyEach
	}
	return nil
}

// accept serves new connections. It continues after errors such as too many open files.
func (l *life) accept(listener net.Listener) {
	for {
		nc, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			if err = l.admit(nc); err == nil {
				l.serve(nc, nil)
				continue
			}
			l.do(func(k *core) { k.report(nc, 0, err) })
			_ = nc.Close()
			if errors.Is(err, errTooManyEach) {
				continue // others need not wait
			}
		} else {
			l.core.config.Logger.Warn("zkdev: cannot accept a connection", "err", err)
		}
		select {
		case <-time.After(acceptPause):
		case <-l.stopping:
			return
		}
	}
}

// own wakes core when its alarm is due, and ends the life.
func (l *life) own() {
	defer l.timer.Stop()
	for {
		select {
		case <-l.timer.C:
			l.do(func(k *core) {
				l.armed = time.Time{}
				if !k.alarm.IsZero() {
					k.wake(k.now())
				}
			})
		case <-l.stopping:
			l.owner.Lock()
			defer l.owner.Unlock()
			l.core.stop()
			close(l.over)
			l.less.Broadcast()
			return
		}
	}
}
