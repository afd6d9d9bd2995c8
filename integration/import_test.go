package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// elasticJobs is a namespace as ElasticJob 3 leaves it: the class in the job's node, YAML in
// config.
var elasticJobs = map[string][2]string{
	"orders": {"work", `cron: 0 30 3 * * ?
disabled: false
failover: true
jobListenerTypes: []
jobName: orders
jobParameter: full
maxTimeDiffSeconds: -1
misfire: true
monitorExecution: true
overwrite: false
props: {}
reconcileIntervalMinutes: 10
shardingItemParameters: 0=Beijing,1=Shanghai,2=Guangzhou
shardingTotalCount: 3
staticSharding: false
timeZone: GMT+8:00
`},
	"weekly": {"work", "cron: 0 0 12 ? * 2\njobName: weekly\nshardingTotalCount: 1\ntimeZone: Europe/Berlin\n"},
	"odd":    {"work", "cron: !expression 0 0 12 ? * 2\njobName: odd\nshardingTotalCount: 1\n"},
}

// The jobs of a namespace become files; submitted, they are owned and run at the times that
// ElasticJob would run them.
func TestImportElasticJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	namespace := c.group + "-elastic"
	create := func(data string, path ...string) {
		_, err := raw.Create(c.chroot+"/"+strings.Join(append([]string{namespace}, path...), "/"), []byte(data), 0, zk.WorldACL(zk.PermAll))
		c.must(err)
	}
	create("")
	for name, job := range elasticJobs {
		create(job[0], name)
		create(job[1], name, "config")
		create("", name, "instances")
	}
	s := c.swctl(buildSwctl(t))
	dir := filepath.Join(t.TempDir(), "jobs") + "/"
	if got := s.run(exitNo, "import", "elasticjob", "--namespace", namespace, "--to", dir); !strings.Contains(got.stdout, "wrote 2 jobs") ||
		!strings.Contains(got.stderr, "not translated: odd, cron: there is no job for it") {
		t.Errorf("import prints %q, and remarks\n%s", got.stdout, got.stderr)
	}
	s.run(exitNotFound, "import", "elasticjob", "--namespace", namespace+"-2")
	if names, err := c.admin.Names(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("import has submitted %q, %v", names, err)
	}

	c.start(options{})
	for _, name := range []string{"orders", "weekly"} {
		s.run(exitOK, "submit", "--file", dir+name+".json")
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	c.must(err)
	for name, want := range map[string]func(time.Time) bool{
		"orders": func(next time.Time) bool {
			return next.UTC().Format("15:04:05") == "19:30:00" && time.Until(next) <= 24*time.Hour
		},
		"weekly": func(next time.Time) bool {
			next = next.In(berlin)
			return next.Weekday() == time.Monday && next.Format("15:04:05") == "12:00:00" && time.Until(next) <= 8*24*time.Hour
		},
	} {
		var list struct {
			Items []struct {
				Name    string     `json:"name"`
				NextRun *time.Time `json:"next_run_at"`
			} `json:"items"`
		}
		c.must(json.Unmarshal([]byte(s.run(exitOK, "list", "-o", "json").stdout), &list))
		found := false
		for _, item := range list.Items {
			found = found || item.Name == name && item.NextRun != nil && want(*item.NextRun)
		}
		if !found {
			t.Errorf("%s with its next tick is not in %+v", name, list)
		}
	}
	if orders := c.get("orders").Job; orders.Shards != 3 || orders.ShardParameters[2] != "Guangzhou" || orders.Args["jobParameter"] != "full" || orders.Handler != work {
		t.Errorf("orders is %+v", orders)
	}
	if data, _, err := raw.Get(c.chroot + "/" + namespace + "/orders/config"); err != nil || string(data) != elasticJobs["orders"][1] {
		t.Errorf("ElasticJob's own node: %q, %v; want it as it was", data, err)
	}
}

// Before the first instance joins, the sample's jobs get the time zone that its machines had: as
// MIGRATE.md has it.
func TestSampleJobsAreSetBeforeTheFirstInstance(t *testing.T) {
	t.Parallel()
	c := newClusterOf(t, sharedServer.get(t), "/sample-"+groupOf(t), "", "_-default-_")
	raw := c.raw("")
	_, err := raw.Create(c.chroot, nil, 0, zk.WorldACL(zk.PermAll))
	c.must(err)
	c.create(raw, "")
	c.create(raw, "0 0 3 * * ?", javaJob)
	c.create(raw, "", javaJob, "register")
	c.create(raw, "", javaJob, "alive")
	c.create(raw, millis(time.Now().Add(-time.Hour)), javaJob, "alive", "192.168.1.7")
	s := c.swctl(buildSwctl(t))
	s.run(exitOK, "set", javaJob, "--tz", "Asia/Shanghai", "--misfire", "skip")
	c.start(sampleOptions())
	c.eventually("the job is owned", func() error {
		if status := c.get(javaJob); status.Owner == nil || status.NextRun.UTC().Hour() != 19 {
			return fmt.Errorf("owner %v, next %v", status.Owner, status.NextRun)
		}
		return nil
	})
}
