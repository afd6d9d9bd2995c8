package integration

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// chaosTime is how long faults are injected.
const chaosTime = 25 * time.Second

// TestFaultsAtRandom injects all kinds of faults in random order during runs of all lengths. It checks the
// properties of violations, and that afterwards every job runs and owners are evenly spread.
func TestFaultsAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	c := newCluster(t, sharedServer.get(t))
	var names []string
	for k, d := range []string{"10ms", "500ms", "900ms", "1500ms", "2500ms", "10ms", "500ms", "900ms", "4s", "8s"} {
		name := fmt.Sprintf("job-%d", k)
		c.submitJob(job.Job{Name: name, Schedule: everySecond, Handler: work, Args: map[string]string{"for": d}},
			admin.SubmitOptions{})
		names = append(names, name)
	}
	chaos := &chaos{cluster: c, random: random}
	for range 3 {
		chaos.begin()
	}
	chaos.spawn()
	c.awaitEven(len(names), 4)

	actions := []func(){
		chaos.cut, chaos.cut, chaos.stall, chaos.stall, chaos.heal, chaos.heal, chaos.heal,
		chaos.expire, chaos.kill, chaos.replace,
	}
	for began := time.Now(); time.Since(began) < chaosTime; {
		actions[random.IntN(len(actions))]()
		<-time.After(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	for _, i := range chaos.live {
		i.proxy.Heal()
	}
	healed := time.Now()
	for _, name := range names {
		c.awaitRun(name, healed)
	}
	c.awaitEven(len(names), 4)
	t.Logf("%d runs, %d adoptions; even %v after the noise stopped",
		len(c.runs("")), c.moves(time.Time{}), time.Since(healed).Round(time.Millisecond))
}

// chaos is three instances in the test's process and one in a separate process.
type chaos struct {
	*cluster

	random *rand.Rand
	live   []*instance
	child  *child
	ids    int
}

func (c *chaos) nextID() string {
	c.ids++
	return "i" + strconv.Itoa(c.ids)
}

func (c *chaos) begin() { c.live = append(c.live, c.start(options{ID: c.nextID(), Proxied: true})) }

func (c *chaos) spawn() { c.child = c.cluster.spawn(options{ID: c.nextID()}) }

func (c *chaos) any() *instance { return c.live[c.random.IntN(len(c.live))] }

func (c *chaos) note(what string, i *instance) {
	c.t.Logf("%s %s %s", time.Now().Format("15:04:05.000"), what, i.id)
}

func (c *chaos) cut() {
	i := c.any()
	c.note("cut", i)
	i.proxy.Cut()
}

func (c *chaos) stall() {
	i := c.any()
	c.note("stall", i)
	i.proxy.Stall()
}

func (c *chaos) heal() {
	i := c.any()
	c.note("heal", i)
	i.proxy.Heal()
}

// expire closes the session of an instance on the server.
func (c *chaos) expire() {
	i := c.any()
	raw := c.raw("")
	found, stat, err := raw.Exists(c.node("_instances", i.id))
	c.must(err)
	if !found {
		return
	}
	c.note("expire", i)
	c.ledger.add(entry{Event: expelled, SID: i.id})
	c.must(c.server.ExpireSession(c.t.Context(), stat.EphemeralOwner))
}

// kill kills the process, and starts another.
func (c *chaos) kill() {
	c.t.Logf("%s kill %s", time.Now().Format("15:04:05.000"), c.child.id)
	c.child.kill()
	c.spawn()
}

// replace stops an instance cleanly, if possible, and starts another.
func (c *chaos) replace() {
	k := c.random.IntN(len(c.live))
	i := c.live[k]
	c.note("replace", i)
	_ = c.stop(i) // fails if it is cut off
	c.live = append(c.live[:k], c.live[k+1:]...)
	c.begin()
}
