package swtest_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// nodes lists the paths of all nodes, but for alarms and the heartbeats of those who stay.
func nodes(t *testing.T, c *swtest.Cluster) (paths []string) {
	t.Helper()
	var dump bytes.Buffer
	if err := c.Server.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(dump.String()) {
		if path, _, found := strings.Cut(line, " v"); found && strings.HasPrefix(path, "/") && !strings.HasSuffix(path, "/alarm") && !strings.Contains(path, "/alive/i") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// A thousand instances come and go, in every way in which they may, and leave no node behind but
// the list of their handlers, one for all, which stays for a day.
func TestAThousandInstancesLeaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const session = 2 * time.Second
		c := swtest.New(t, swtest.Config{SessionTimeout: session, SyncPeriod: session / 2})
		group(t, c, 2, 1, "@hourly", working(0))
		if err := c.Submit(t.Context(), singleworker.Job{Name: "theirs", Schedule: "@hourly"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(settled)
		before := nodes(t, c)
		setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"job0": working(0), "theirs": working(0)}}
		most := simkit.Share(1000)
		for k := range most {
			i := c.Start(fmt.Sprintf("pod-%d", k), setup)
			time.Sleep(session / 4)
			if k%8 == 1 {
				if err := c.Operate(t.Context(), func(client *admin.Client) error {
					_, err := client.Drain(t.Context(), i.Name, admin.OrderOptions{})
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			if k%3 == 0 {
				i.Leave()
			} else {
				i.Kill()
			}
		}
		time.Sleep(session)
		if left := len(nodes(t, c)) - len(before); left < 15 {
			t.Errorf("only %d nodes are left to be removed: the test shows nothing", left)
		}
		time.Sleep(13 * session)
		after := nodes(t, c)
		lists, gone := 0, 0
		after = slices.DeleteFunc(after, func(path string) bool {
			added := !slices.Contains(before, path)
			list := added && strings.HasPrefix(path, c.Tree().Handlers()+"/")
			if list {
				lists++
			}
			if departed := added && strings.HasPrefix(path, c.Tree().AllDeparted()+"/"); departed {
				gone++
				return true
			}
			return list || added && strings.HasPrefix(path, c.Tree().Deeds()+"/") // who has drained them is kept on purpose
		})
		if lists != 1 {
			t.Errorf("%d lists of handlers are left, want that of the pods", lists)
		}
		// Who joins removes the oldest, so those whose sessions ended after the last one had joined are
		// more.
		if since := int(2*session/(session/4)) + 1; gone > zkrec.MaxDeparted+since {
			t.Errorf("%d instances that are gone are remembered, want at most %d, and %d that went since", gone, zkrec.MaxDeparted, since)
		}
		for _, path := range after {
			if !slices.Contains(before, path) {
				t.Errorf("%s is left", path)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%d nodes, there were %d", len(after), len(before))
		}
	})
}
