package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	// maxTurns are requests that are answered at once, and maxTurnsEach those by one address. Others
	// wait.
	maxTurns     = 64
	maxTurnsEach = 16
	// maxWait is how long a reading waits for the budget of its viewer.
	maxWait = 2 * time.Second
)

// perEach and perAll are the budgets of requests to ZooKeeper by the readings that viewers cause,
// beside those that all share: of one address, and of all together. A job with its run log is two
// usual readings: an address has twenty at once, and then one each second.
var (
	perEach = budget{every: 150 * time.Millisecond, burst: 120}
	perAll  = budget{every: 5 * time.Millisecond, burst: 2000}
)

const (
	// usual is how many requests a reading is taken for before it is made: a job has as many.
	usual = 3
	// largest is how many it is taken for at most. Made every ten seconds, it leaves half of the
	// budget to the other readings of a page.
	largest = 33
)

// errTooFast refuses requests beyond the budget.
var errTooFast = errors.New("too many different things are asked for from this address: try again in some seconds")

// budget allows a burst of requests, and then one each time. When it is full again says how much is
// left of it.
type budget struct {
	every time.Duration
	burst int
	full  time.Time
}

// wait is how long the next reading has to wait.
func (b budget) wait(now time.Time) time.Duration {
	if b.full.Before(now) {
		return 0
	}
	return max(0, b.full.Sub(now)-time.Duration(b.burst-usual)*b.every)
}

func (b *budget) take(now time.Time, requests int) {
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(time.Duration(requests) * b.every)
}

// visitors are those who ask: who may, by host name and site, and how much at once, by address.
type visitors struct {
	hosts   []string // any, if it is empty
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
	present int    // requests that it has here
	spent   budget // by its readings
}

func newVisitors(hosts []string, proxies []netip.Prefix) *visitors {
	return &visitors{hosts: hosts, proxies: proxies, turns: make(chan struct{}, maxTurns), all: perAll, of: make(map[netip.Prefix]*visitor)}
}

// policy lets a page load nothing but its own style and script, and be in no other page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// secured refuses requests for other hosts and by other sites, leaves bodies to POST and PUT, and
// tells browsers what pages may not do.
func (v *visitors) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		switch {
		case !v.isHost(r.Host):
			http.Error(w, "this server does not answer for that host name", http.StatusMisdirectedRequest)
			return
		case fromElsewhere(r):
			http.Error(w, "a page of another site may not ask for this", http.StatusForbidden)
			return
		case r.Method == http.MethodPost:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		case r.Method == http.MethodPut:
			r.Body = http.MaxBytesReader(w, r.Body, maxDocument)
		case r.ContentLength != 0: // it is not read, so the connection cannot be used again
			header.Set("Connection", "close")
			fallthrough
		default:
			r.Body = http.NoBody
		}
		next.ServeHTTP(w, r)
	})
}

const (
	// maxBody bounds the form of an action.
	maxBody = 64 << 10
	// maxDocument bounds a job that is put, with all that GET tells beside its spec.
	maxDocument = 4 * job.MaxBytes
)

// isHost reports whether a Host header is one of those that the handler answers.
func (v *visitors) isHost(header string) bool {
	if len(v.hosts) == 0 {
		return true
	}
	host := header
	if name, port, err := net.SplitHostPort(header); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return slices.ContainsFunc(v.hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) })
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

// client is the address that a request comes from. A proxy that the options name says it. Nobody
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

// remote is the address of the connection, invalid if it has none.
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

// inTurn sends the answer that a function makes while a bounded number of others are made, in all
// and for the visitor. Nothing is made of a request that is given up before.
func (v *visitors) inTurn(answered func(*http.Request) answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, err := v.await(r, answered); err == nil {
			a.send(w)
		}
	})
}

// await makes an answer when it has its turns, and gives them back.
func (v *visitors) await(r *http.Request, answered func(*http.Request) answer) (answer, error) {
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
			if o.present == 0 && !o.spent.full.After(now) {
				delete(v.of, other)
			}
		}
		one = &visitor{among: v, turns: make(chan struct{}, maxTurnsEach), spent: perEach}
		v.of[from] = one
	}
	one.present++
	return one
}

func (v *visitors) leave(one *visitor, from netip.Prefix) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one.present--; one.present == 0 && !one.spent.full.After(time.Now()) {
		delete(v.of, from)
	}
}

type visitorKey struct{}

// visitorOf is who has the turn in which an answer is made.
func visitorOf(ctx context.Context) *visitor {
	one, _ := ctx.Value(visitorKey{}).(*visitor)
	return one
}

// pay takes a usual reading from the budgets, and returns how long it must wait.
func (one *visitor) pay(now time.Time) (time.Duration, error) {
	v := one.among
	v.mu.Lock()
	defer v.mu.Unlock()
	wait := max(one.spent.wait(now), v.all.wait(now))
	if wait > maxWait {
		return 0, errTooFast
	}
	one.spent.take(now, usual)
	v.all.take(now, usual)
	return wait, nil
}

// sent takes from the budgets the requests of a reading that pay did not know of. It returns for
// how long to keep the reading, so that the viewer of a page never has spent the budget.
func (one *visitor) sent(requests int) time.Duration {
	v, now := one.among, time.Now()
	requests = min(requests, largest)
	v.mu.Lock()
	defer v.mu.Unlock()
	more := max(0, requests-usual)
	one.spent.take(now, more)
	v.all.take(now, more)
	return 2 * time.Duration(requests) * perEach.every
}
