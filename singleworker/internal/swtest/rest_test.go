package swtest_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A job without a run has a heartbeat once a minute, each instance a sign of life four times per
// session timeout, and nothing moves: not for that, and not when an owner has stood still for a
// while. One that hangs for longer loses its jobs, although none of them is due.
func TestHeartbeatsAtRest(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		const jobs, minutes = 200, 10
		instances := group(t, c, 2, jobs, "@yearly", working(time.Second))
		shares := c.Shares()
		from := time.Now()
		time.Sleep(minutes * time.Minute)
		beats, lives := written(c, from)
		for job, n := range beats {
			if n < minutes-1 || n > minutes+1 {
				t.Errorf("%s had %d heartbeats in %d minutes", job, n, minutes)
			}
		}
		if want := int(minutes * time.Minute / (session / 4)); len(beats) != jobs || len(lives) != 2 {
			t.Errorf("%d jobs had heartbeats, want %d; %d instances gave signs of life, want 2", len(beats), jobs, len(lives))
		} else {
			for life, n := range lives {
				if n < want-1 || n > want+1 {
					t.Errorf("%s was written %d times, want %d", life, n, want)
				}
			}
		}
		instances[0].Stall()
		time.Sleep(session)
		instances[0].Resume()
		time.Sleep(settled)
		if got := c.Shares(); !maps.Equal(got, shares) {
			t.Errorf("shares %v, want %v: nobody was away for long", got, shares)
		}
		instances[0].Stall()
		time.Sleep(3 * session)
		if got := c.Shares(); got["i1"] != jobs {
			t.Errorf("shares %v, want all at i1: i0 hangs", got)
		}
		instances[0].Resume()
		time.Sleep(settled)
		pass(t, c)
	})
}

// written counts heartbeats by job, and signs of life, since a time.
func written(c *swtest.Cluster, since time.Time) (beats, lives map[string]int) {
	beats, lives = make(map[string]int), make(map[string]int)
	for _, txn := range c.Server.Log() {
		if txn.Op != zkdev.OpSetData || txn.Code != zkdev.OK || txn.Time.Before(since) {
			continue
		}
		if job, _, is := strings.Cut(txn.Path, "/alive/"); is {
			beats[job]++
		} else if strings.HasPrefix(txn.Path, c.Tree().Lives()+"/") {
			lives[txn.Path]++
		}
	}
	return beats, lives
}
