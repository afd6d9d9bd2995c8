package swtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Half of a group dies at once, after one instance was stopped: each is silent until its session
// ends, and is remembered then, by few writes. The stopped one has remembered itself.
func TestGoneInstancesAreRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		const dead = 6
		instances := group(t, c, 2*dead+1, 40, "@yearly", working(time.Second))
		if err := instances[0].Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * session)
		for _, i := range instances[1 : dead+1] {
			i.Kill()
		}
		time.Sleep(session * 4 / 5)
		err := c.Operate(t.Context(), func(client *admin.Client) error {
			all, err := client.Instances(t.Context())
			silent := 0
			for _, i := range all {
				if i.Silent > 0 {
					silent++
				}
			}
			if len(all) != 2*dead || silent != dead {
				t.Errorf("%d of %d instances are silent, want %d", silent, len(all), dead)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * session)
		err = c.Operate(t.Context(), func(client *admin.Client) error {
			gone, err := client.Gone(t.Context())
			how := make(map[string]int)
			for _, g := range gone {
				how[g.How]++
				if g.How == admin.GoneEnded && (g.LastSign.IsZero() || g.By == "") {
					t.Errorf("%+v", g)
				}
			}
			if len(gone) != dead+1 || how[admin.GoneStopped] != 1 || how[admin.GoneEnded] != dead {
				t.Errorf("gone: %+v", gone)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		writes := 0
		for _, txn := range c.Server.Log() {
			if txn.Op == zkdev.OpCreate && strings.HasPrefix(txn.Path, c.Tree().AllDeparted()+"/") {
				writes++
			}
		}
		if writes > 6*(dead+1) { // three try, and what is refused with others is sent again without them
			t.Errorf("%d writes for %d instances", writes, dead+1)
		}
		pass(t, c)
	})
}
