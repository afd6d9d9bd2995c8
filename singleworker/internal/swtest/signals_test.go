package swtest_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// watches is how many the server holds.
func watches(t *testing.T, c *swtest.Cluster) (n int) {
	t.Helper()
	conn, err := c.Server.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	_, rest, found := strings.Cut(string(answer), "zk_watch_count\t")
	if err == nil && found {
		_, err = fmt.Sscan(rest, &n)
	}
	if err != nil || !found {
		t.Fatalf("%v in %q", err, answer)
	}
	return n
}

// Each instance watches the owner records. It hears of a slot's other records by nodes whose number
// does not grow with the slots.
func TestWatchesPerSlot(t *testing.T) {
	t.Parallel()
	const instances = 6
	held := make(map[int]int)
	for _, jobs := range []int{20, 120} {
		synctest.Test(t, func(t *testing.T) {
			c := swtest.New(t, swtest.Config{})
			group(t, c, instances, jobs, "@yearly", working(time.Second))
			time.Sleep(settled)
			held[jobs] = watches(t, c)
		})
	}
	t.Logf("watches by jobs, of %d instances: %v", instances, held)
	const perInstance = zkrec.Signals + instances + 10
	if perSlot := (held[120] - held[20]) / 100; perSlot > instances || held[20] > 20*instances+perInstance*instances {
		t.Errorf("%d watches per slot at %d instances; %v in all", perSlot, instances, held)
	}
}

// A change of a job is heard by each instance, which reads the signal and the job.
func TestReadsPerChange(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		const instances, jobs = 30, 90
		group(t, c, instances, jobs, "@yearly", working(time.Second))
		time.Sleep(settled)
		signal, spec, others := make(map[string]int), make(map[string]int), 0
		name := ""
		var mu sync.Mutex
		c.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			mu.Lock()
			defer mu.Unlock()
			job, is := c.Tree().Watched(r.Path)
			_, signals := c.Tree().SignalAt(r.Path)
			switch isSpec := is && r.Path == c.Tree().Job(job); {
			case !strings.HasPrefix(r.Client, "i"):
			case signals:
				signal[r.Client]++
			case isSpec && job == name:
				spec[r.Client]++
			case isSpec:
				others++
			}
			return zkdev.Pass()
		})
		err := c.Operate(t.Context(), func(client *admin.Client) error {
			names, err := client.Names(t.Context())
			if err != nil {
				return err
			}
			mu.Lock()
			name = names[len(names)/2]
			mu.Unlock()
			_, err = client.Pause(t.Context(), name, admin.PauseOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(signal) != instances || len(spec) != instances || others > 0 {
			t.Errorf("%d instances read the signal, %d the job; %d other jobs were read", len(signal), len(spec), others)
		}
		for client, n := range spec {
			if n != 1 || signal[client] != 1 {
				t.Errorf("%s read the job %d times, and the signal %d times", client, n, signal[client])
			}
		}
	})
}

// A request is told to the owner of the slot, and to the instance that comes next, by the protocol:
// these two read it, and nobody else.
func TestRequestIsReadByTwo(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		const instances, jobs = 12, 36
		group(t, c, instances, jobs, "@yearly", working(time.Second))
		time.Sleep(settled)
		told, read := make(map[string]int), make(map[string]map[string]bool)
		var mu sync.Mutex
		c.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(r.Path, c.Tree().Asked()+"/") && strings.HasPrefix(r.Client, "i") {
				told[r.Client]++
			}
			return zkdev.Pass()
		})
		c.Server.ControlKeep(zkdev.OpGetChildren, func(r *zkdev.Request) zkdev.Action {
			mu.Lock()
			defer mu.Unlock()
			if slot, is := c.Tree().Watched(r.Path); is && r.Path == c.Tree().Requests(slot) && strings.HasPrefix(r.Client, "i") {
				if read[slot] == nil {
					read[slot] = make(map[string]bool)
				}
				name, _, _ := strings.Cut(r.Client, "#")
				read[slot][name] = true
			}
			return zkdev.Pass()
		})
		owners := c.Owners()
		err := c.Operate(t.Context(), func(client *admin.Client) error {
			for k := range jobs {
				if _, err := client.Trigger(t.Context(), fmt.Sprintf("job%d", k), admin.TriggerOptions{}); err != nil {
					return err
				}
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		signals := 0
		for _, n := range told {
			signals += n
		}
		if len(read) != jobs || signals != 2*jobs {
			t.Errorf("requests of %d jobs were read, and %d signals; want %d, %d", len(read), signals, jobs, 2*jobs)
		}
		for job, by := range read {
			if len(by) != 2 || !by[owners[job]] {
				t.Errorf("requests of %s were read by %v; its owner is %s", job, by, owners[job])
			}
		}
		if runs := c.Runs(); len(runs) != jobs {
			t.Errorf("%d runs, want %d", len(runs), jobs)
		}
		pass(t, c)
	})
}
