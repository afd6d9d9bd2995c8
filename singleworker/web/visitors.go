package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxTurns are requests that are answered at once, and maxTurnsEach those by one address. Others
	// wait.
	maxTurns     = 64
	maxTurnsEach = 16
	// maxWait is how long a reading waits for the budget of its viewer.
	maxWait = 2 * time.Second
)

// perEach and perAll are the budgets of readings that viewers cause, beside those that all share:
// of one address, and of all together.
var (
	perEach = budget{every: 250 * time.Millisecond, burst: 40}
	perAll  = budget{every: 25 * time.Millisecond, burst: 400}
)

// errTooFast refuses requests beyond the budget.
var errTooFast = errors.New("too many different things are asked for from this address: try again in some seconds")

// budget allows a burst, and then one each time. When it is full again says how much is left of it.
type budget struct {
	every time.Duration
	burst int
	full  time.Time
}

// wait is how long the next one has to wait.
func (b budget) wait(now time.Time) time.Duration {
	if b.full.Before(now) {
		return 0
	}
	return max(0, b.full.Sub(now)-time.Duration(b.burst-1)*b.every)
}

func (b *budget) take(now time.Time) {
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(b.every)
}

// visitors are those who ask, by address.
type visitors struct {
	proxies []netip.Prefix
	turns   chan struct{} // buffers one for each request that is answered

	mu  sync.Mutex
	all budget
	of  map[netip.Prefix]*visitor
}

// visitor is an address, or a network that is given to one customer. It is known while it has
// requests, or has used its budget.
type visitor struct {
	among *visitors
	turns chan struct{} // buffers one for each request that is answered

	// Guarded by visitors.mu.
	present  int // requests
	readings budget
}

func newVisitors(proxies []netip.Prefix) *visitors {
	return &visitors{proxies: proxies, turns: make(chan struct{}, maxTurns), all: perAll, of: make(map[netip.Prefix]*visitor)}
}

// client is the address that a request comes from. A proxy that the options name says it; nobody
// else is believed.
func (v *visitors) client(r *http.Request) netip.Addr {
	from := remote(r)
	named := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(named) { // each proxy adds the address that it was asked from
		if !slices.ContainsFunc(v.proxies, func(p netip.Prefix) bool { return p.Contains(from) }) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			break
		}
		from = next.Unmap().WithZone("")
	}
	return from
}

// named is the address that a request comes from, for people.
func (v *visitors) named(r *http.Request) string {
	if from := v.client(r); from.IsValid() {
		return from.String()
	}
	return clip(r.RemoteAddr)
}

// remote is the address of the connection; invalid if it has none.
func remote(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	from, _ := netip.ParseAddr(host)
	return from.Unmap().WithZone("")
}

// network is one customer's share: an address, or 64 bits of IPv6.
func network(of netip.Addr) netip.Prefix {
	const given = 64
	if of.Is6() {
		return netip.PrefixFrom(of, given).Masked()
	}
	return netip.PrefixFrom(of, of.BitLen())
}

// inTurn makes an answer while a bounded number of others are made, in all and for the visitor. It
// fails if the request is given up before.
func (v *visitors) inTurn(r *http.Request, answered func(*http.Request) answer) (answer, error) {
	one := v.enter(network(v.client(r)))
	defer v.leave(one, network(v.client(r)))
	for _, turns := range []chan struct{}{one.turns, v.turns} {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-r.Context().Done():
			return answer{}, context.Cause(r.Context())
		}
	}
	return answered(r.WithContext(context.WithValue(r.Context(), visitorKey{}, one))), nil
}

func (v *visitors) enter(from netip.Prefix) *visitor {
	v.mu.Lock()
	defer v.mu.Unlock()
	one := v.of[from]
	if one == nil {
		now := time.Now()
		for other, o := range v.of {
			if o.present == 0 && !o.readings.full.After(now) {
				delete(v.of, other)
			}
		}
		one = &visitor{among: v, turns: make(chan struct{}, maxTurnsEach), readings: perEach}
		v.of[from] = one
	}
	one.present++
	return one
}

func (v *visitors) leave(one *visitor, from netip.Prefix) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one.present--; one.present == 0 && !one.readings.full.After(time.Now()) {
		delete(v.of, from)
	}
}

type visitorKey struct{}

// visitorOf is who has the turn in which an answer is made.
func visitorOf(ctx context.Context) *visitor {
	one, _ := ctx.Value(visitorKey{}).(*visitor)
	return one
}

// pay takes a reading from the budgets, and returns how long it must wait.
func (one *visitor) pay(now time.Time) (time.Duration, error) {
	v := one.among
	v.mu.Lock()
	defer v.mu.Unlock()
	wait := max(one.readings.wait(now), v.all.wait(now))
	if wait > maxWait {
		return 0, errTooFast
	}
	one.readings.take(now)
	v.all.take(now)
	return wait, nil
}

// fromElsewhere reports whether a browser says that another site has a page load something from
// this one. It may send a whole tab here: that is a link in a mail or a chat.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	whole := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return r.Method != http.MethodGet && r.Method != http.MethodHead || !whole
}
