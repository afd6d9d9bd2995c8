package swtest_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// zoned starts instances i0 in zone z0, i1 in zone z1, and so on.
func zoned(c *swtest.Cluster, n int, setup swtest.Setup) {
	for k := range n {
		here := setup
		here.Configure = func(cfg *singleworker.Config) { cfg.Labels = map[string]string{"zone": fmt.Sprintf("z%d", k)} }
		c.Start(fmt.Sprintf("i%d", k), here)
	}
	time.Sleep(settled)
}

// A job stays where it may run, through every change of who lives, and of its requirements. A run
// in progress ends first.
func TestJobsStayWhereTheyMayRun(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := sharing(t, c, 6, "*/5 * * * * ?", working(time.Second))
		zoned(c, 3, setup)
		edit := func(name string, change func(*job.Job)) {
			t.Helper()
			if err := c.Operate(t.Context(), func(client *admin.Client) error {
				_, err := client.Edit(t.Context(), name, func(j *job.Job) error { change(j); return nil }, admin.EditOptions{})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		for k := range 3 {
			edit(fmt.Sprintf("job%d", k), func(j *job.Job) { j.Require = map[string]string{"zone": "z1"} })
			edit(fmt.Sprintf("job%d", k+3), func(j *job.Job) { j.Instances = []string{"i0", "i2"} })
		}
		changed := time.Now()
		time.Sleep(2 * settled)
		if shares := c.Shares(); shares["i1"] != 3 || shares["i0"]+shares["i2"] != 3 || shares["i0"] == 0 || shares["i2"] == 0 {
			t.Errorf("shares %v", shares)
		}
		killed := time.Now()
		c.Instances()[1].Kill()
		time.Sleep(2 * settled)
		jobs, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for k, j := range jobs {
			want := admin.StateOwned
			if k < 3 {
				want = admin.StateUnowned
			}
			if j.State != want {
				t.Errorf("%s is %s: %s", j.Name, j.State, j.Reason)
			}
		}
		ran := map[string]int{}
		for _, r := range c.Runs() {
			if r.Err != nil && r.Started.Before(killed.Add(-time.Second)) {
				t.Errorf("%s of %v at %s: %v", r.Job, r.Tick, r.Instance.Name, r.Err)
			}
			if r.Started.After(changed) {
				ran[r.Job+" at "+r.Instance.Name]++
			}
		}
		for at := range ran {
			var k, i int
			if _, err := fmt.Sscanf(at, "job%d at i%d", &k, &i); err != nil || (k < 3) != (i == 1) {
				t.Errorf("%s: %d runs", at, ran[at])
			}
		}
		pass(t, c)
	})
}

// One job is kept off one instance, and comes back; the others stay. A disabled host owns nothing.
func TestDisablingWithAFinerHand(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		group(t, c, 2, 4, "*/5 * * * * ?", working(time.Second))
		operate := func(f func(*admin.Client) (admin.OrderResult, error)) admin.OrderResult {
			t.Helper()
			var result admin.OrderResult
			if err := c.Operate(t.Context(), func(client *admin.Client) (err error) {
				result, err = f(client)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return result
		}
		name := ""
		for job, owner := range c.Owners() {
			if owner == "i0" {
				name = job
			}
		}
		at := admin.Target{InstanceID: "i0", Job: name}
		operate(func(client *admin.Client) (admin.OrderResult, error) {
			return client.DisableAt(t.Context(), at, admin.OrderOptions{By: "test"})
		})
		ordered := time.Now()
		time.Sleep(settled)
		if owners := c.Owners(); owners[name] != "i1" || c.Shares()["i0"] == 0 {
			t.Errorf("owners %v, want %s at i1, and jobs at i0", owners, name)
		}
		for _, r := range c.Runs() {
			if r.Job == name && r.Instance.Name == "i0" && r.Started.After(ordered.Add(time.Second)) {
				t.Errorf("%s ran at i0 %v after the order", name, r.Started.Sub(ordered))
			}
			if r.Err != nil {
				t.Errorf("%s of %v at %s: %v", r.Job, r.Tick, r.Instance.Name, r.Err)
			}
		}
		operate(func(client *admin.Client) (admin.OrderResult, error) { return client.EnableAt(t.Context(), at) })
		time.Sleep(settled)
		if got, want := c.Shares(), map[string]int{"i0": 2, "i1": 2}; !maps.Equal(got, want) {
			t.Errorf("enabled: shares %v, want %v", got, want)
		}
		host := ""
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			all, err := client.Instances(t.Context())
			host = all[0].Host
			return err
		}); err != nil {
			t.Fatal(err)
		}
		bound := operate(func(client *admin.Client) (admin.OrderResult, error) {
			return client.DisableAt(t.Context(), admin.Target{Host: host}, admin.OrderOptions{By: "test"})
		}).Bound
		time.Sleep(settled)
		if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 0}; !maps.Equal(got, want) || len(bound) != 2 {
			t.Errorf("host disabled: shares %v, want %v; bound %+v", got, want, bound)
		}
		operate(func(client *admin.Client) (admin.OrderResult, error) {
			return client.EnableAt(t.Context(), admin.Target{Host: host})
		})
		time.Sleep(settled)
		if got, want := c.Shares(), map[string]int{"i0": 2, "i1": 2}; !maps.Equal(got, want) {
			t.Errorf("host enabled: shares %v, want %v", got, want)
		}
		pass(t, c)
	})
}
