package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

const (
	// queueLength is how many events wait for a slow viewer before it is cut, and ringLength how many
	// are kept for those that come back.
	queueLength = 256
	ringLength  = 2048
	// maxViewers follow events at once.
	maxViewers = 256
	// linger is how long the watch lasts without viewers: a click on a link is a viewer that leaves
	// and comes back.
	linger = 30 * time.Second
	// beat is how often a silent stream says that it lives, and writeTime how long a viewer may take
	// for a message.
	beat      = 15 * time.Second
	writeTime = 10 * time.Second
)

// feeds is the one watch that all viewers share, while there are any.
type feeds struct {
	client   Reader
	visitors *visitors
	logger   *slog.Logger
	changed  func() // is called before each event is sent

	mu     sync.Mutex
	feed   *feed // nil while nobody looks
	last   *feed // the one before, whose events are still known
	joined int   // counts viewers
}

// feed is one watch. Its fields are guarded by feeds.mu.
type feed struct {
	viewers map[*viewer]struct{}
	ring    []event
	base    int64 // everything up to here was before the ring
	began   bool  // base is known
	end     context.CancelFunc
	idle    *time.Timer // ends it, and is nil while somebody looks
}

// event is one that was sent.
type event struct {
	cursor int64
	frame  []byte
}

// viewer follows the events. Its queue is closed when it is cut.
type viewer struct {
	of     *feed
	from   netip.Prefix
	number int   // counts viewers
	since  int64 // the cursor that it has, if it came before base was known
	queue  chan []byte
}

var errCrowded = fmt.Errorf("%w: too many viewers follow the events already", admin.ErrUnavailable)

// join adds a viewer. It has to be sent the frames first: the events since its cursor, or a frame
// that says that they are not known.
func (f *feeds) join(ctx context.Context, from netip.Prefix, since int64) (v *viewer, first [][]byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.feed
	if now == nil {
		now = f.start(ctx, since)
		f.feed = now
	}
	if !f.hasRoom(from) {
		return nil, nil, errCrowded
	}
	if now.idle != nil {
		now.idle.Stop()
		now.idle = nil
	}
	f.joined++
	v = &viewer{of: now, from: from, number: f.joined, queue: make(chan []byte, queueLength)}
	now.viewers[v] = struct{}{}
	switch frames, known := now.after(since); {
	case !now.began:
		v.since = since // the first event answers it
	case since == 0:
		first = [][]byte{fmt.Appendf(nil, "id: %d\n\n", now.cursor())}
	case known:
		first = frames
	default:
		first = [][]byte{now.reset()}
	}
	return v, first, nil
}

// hasRoom makes room for a viewer where it is missing: the oldest one leaves of the address that
// has the most, unless that has no more than the new one's. f.mu is held.
func (f *feeds) hasRoom(from netip.Prefix) bool {
	if len(f.feed.viewers) < maxViewers {
		return true
	}
	of := make(map[netip.Prefix]int)
	for v := range f.feed.viewers {
		of[v.from]++
	}
	var leaves *viewer
	for v := range f.feed.viewers {
		if leaves == nil || of[v.from] > of[leaves.from] || of[v.from] == of[leaves.from] && v.number < leaves.number {
			leaves = v
		}
	}
	if of[leaves.from] <= of[from]+1 {
		return false
	}
	f.drop(leaves)
	return true
}

// start begins to watch: from the end of the last watch, if that has the events that the first
// viewer has missed, else from now. No watch begins at a cursor because a viewer says so. It ends
// linger after the last viewer has left.
func (f *feeds) start(ctx context.Context, since int64) *feed {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	now := &feed{viewers: make(map[*viewer]struct{}), end: cancel}
	var from int64
	if f.last != nil {
		if _, known := f.last.after(since); known {
			from = f.last.cursor()
			now.ring, now.base, now.began = f.last.ring, f.last.base, true
		}
	}
	f.last = nil
	go func() {
		for ev, err := range f.client.Watch(ctx, admin.WatchOptions{Since: from, Trouble: true}) {
			if err != nil {
				break
			}
			f.publish(now, ev)
		}
		f.close(now)
	}()
	return now
}

// publish sends an event to all viewers. It never waits for one.
func (f *feeds) publish(now *feed, ev admin.Event) {
	if ev.Status != nil { // the status of each of a thousand shards would be kept, and sent to everybody
		whole := *ev.Status
		whole.Slots = nil
		ev.Status = &whole
	}
	text, err := encoded(api.Event(ev), nil)
	if err != nil {
		return // it has no such event
	}
	frame := fmt.Appendf(nil, "id: %d\ndata: %s\n", ev.Cursor, text) // the text ends with a newline
	f.changed()
	f.mu.Lock()
	defer f.mu.Unlock()
	began := now.began
	now.keep(event{ev.Cursor, frame})
	for v := range now.viewers {
		own := frame
		if !began && v.since != 0 && v.since != ev.Cursor {
			own = now.reset()
		}
		select {
		case v.queue <- own:
		default: // it comes back with its cursor
			f.drop(v)
		}
	}
}

// keep adds an event to the ring. The first one of a watch that resumes nothing only says where it
// begins.
func (now *feed) keep(ev event) {
	if !now.began {
		now.base, now.began = ev.cursor, true
		return
	}
	if len(now.ring) == ringLength {
		const half = ringLength / 2
		now.base = now.ring[half-1].cursor + 1 // others that were reported with it may be among those that go
		now.ring = append([]event(nil), now.ring[half:]...)
	}
	now.ring = append(now.ring, ev)
}

// after returns the frames of the events after a cursor. known is false if the ring does not
// reach back to it, or has not come that far. Events that were reported together have the cursor
// before them, but for the last one.
func (now *feed) after(since int64) (frames [][]byte, known bool) {
	if !now.began || since < now.base || since > now.cursor() {
		return nil, false
	}
	reached, from := now.base, 0
	for i, ev := range now.ring {
		if ev.cursor > since {
			break
		}
		if ev.cursor > reached {
			reached, from = ev.cursor, i+1
		}
	}
	for _, ev := range now.ring[from:] {
		frames = append(frames, ev.frame)
	}
	return frames, true
}

// cursor is up to where all was reported.
func (now *feed) cursor() int64 {
	if len(now.ring) > 0 {
		return now.ring[len(now.ring)-1].cursor
	}
	return now.base
}

// reset tells a viewer to read everything again.
func (now *feed) reset() []byte {
	return fmt.Appendf(nil, "event: reset\nid: %d\ndata: {}\n\n", now.cursor())
}

// leave removes a viewer. The last one has the watch end in a while.
func (f *feeds) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(v)
	if now := v.of; len(now.viewers) == 0 && now == f.feed && now.idle == nil {
		now.idle = time.AfterFunc(linger, func() { f.expire(now) })
	}
}

// drop cuts a viewer. f.mu is held.
func (f *feeds) drop(v *viewer) {
	if _, ok := v.of.viewers[v]; ok {
		delete(v.of.viewers, v)
		close(v.queue)
	}
}

// expire ends a watch without viewers.
func (f *feeds) expire(now *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(now.viewers) == 0 {
		f.forget(now)
	}
}

// forget ends a watch, and keeps its position for those who come back. f.mu is held.
func (f *feeds) forget(now *feed) {
	now.end()
	if f.feed == now {
		f.feed, f.last = nil, now
	}
}

// close cuts the viewers of a watch that has ended.
func (f *feeds) close(now *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for v := range now.viewers {
		f.drop(v)
	}
	f.forget(now)
}

// events answers with server-sent events.
func (f *feeds) events(w http.ResponseWriter, r *http.Request) {
	since, err := sinceOf(r)
	var v *viewer
	var first [][]byte
	if err == nil {
		v, first, err = f.join(r.Context(), network(f.visitors.client(r)), since)
	}
	if err != nil {
		documentOf(r, nil, err, f.logger).send(w)
		return
	}
	defer f.leave(v)
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the server's own would end the stream, too
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(frame []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeTime)) // the server's own would end the stream
		_, err := w.Write(frame)                            //nolint:gosec // of the type text/event-stream, which is never HTML
		return err == nil && out.Flush() == nil
	}
	for _, frame := range append([][]byte{[]byte("retry: 3000\n\n")}, first...) {
		if !send(frame) {
			return
		}
	}
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for {
		frame := []byte(": alive\n\n")
		select {
		case next, ok := <-v.queue:
			if !ok {
				return
			}
			frame = next
		case <-alive.C:
		case <-r.Context().Done():
			return
		}
		if !send(frame) {
			return
		}
	}
}
