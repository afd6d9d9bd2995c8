package swtest_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// misreading is the connection of an instance that reads something else: as if its rules for
// schedules were others.
type misreading struct {
	net.Conn
	was, is string // of the same length
}

// Read reads from a frame, which is read as a whole.
func (m misreading) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	copy(p, bytes.Replace(p[:n], []byte(m.was), []byte(m.is), 1))
	return n, err
}

// Two instances have different versions of the time zone database, or of the rules for schedules.
// The job does not go to and fro, so that the ticks of both run: it stays with one of them, whose
// ticks run, and the other one says that it has others.
func TestOtherRulesForSchedules(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := sharing(t, c, 1, "*/20 * * * * ?", working(10*time.Millisecond))
		var log roomtest.Log
		for name, is := range map[string]string{"i0": "*/20 *", "i1": "7/20 *"} {
			s := setup
			s.Dial = func(ctx context.Context, client *zkdev.Client) (net.Conn, error) {
				conn, err := client.Dial(ctx, "", "")
				return misreading{conn, "*/20 *", is}, err
			}
			s.Configure = func(cfg *singleworker.Config) { cfg.Logger = log.Logger() }
			c.Start(name, s)
		}
		time.Sleep(2 * time.Minute)
		settled := time.Now()
		time.Sleep(10 * time.Minute)
		if changes := changesSince(t, c, settled); len(changes) > 0 {
			t.Errorf("the job changes hands %d times: %v", len(changes), changes)
		}
		ticks := make(map[int]int) // by second of the minute modulo 20
		for _, r := range c.Runs() {
			if r.Tick.After(settled) {
				ticks[r.Tick.Second()%20]++
			}
		}
		if len(ticks) != 1 || ticks[0]+ticks[7] != 30 {
			t.Errorf("runs by second: %v, want 30 of one instance's ticks", ticks)
		}
		if n := strings.Count(log.String(), "has other ticks here"); n == 0 || n > 2 {
			t.Errorf("it is said %d times, want it once by an instance that does not own the job:\n%s", n, log.String())
		}
	})
}
