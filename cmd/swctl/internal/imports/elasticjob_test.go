package imports

import (
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/job"
)

// yaml3 is a configuration as ElasticJob 3.0 writes it.
const yaml3 = `cron: 0/5 * * * * ?
description: ''
disabled: false
failover: true
jobErrorHandlerType: LOG
jobExtraConfigurations: []
jobListenerTypes: []
jobName: orders
jobParameter: full
jobShardingStrategyType: AVG_ALLOCATION
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
`

// json2 is one as ElasticJob-Lite 2.1 writes it.
const json2 = `{"jobName":"stream","jobClass":"com.example.StreamJob","jobType":"DATAFLOW","cron":"0 0/10 * * * ?","shardingTotalCount":1,` +
	`"shardingItemParameters":"","jobParameter":"","failover":false,"misfire":false,"description":"reads <all> \u0026 \"more\"",` +
	`"jobProperties":{"job_exception_handler":"com.dangdang.ddframe.job.executor.handler.impl.DefaultJobExceptionHandler",` +
	`"executor_service_handler":"com.example.Pool"},"monitorExecution":true,"maxTimeDiffSeconds":-1,"monitorPort":9888,` +
	`"jobShardingStrategyClass":"com.example.Strategy","reconcileIntervalMinutes":10,"disabled":true,"overwrite":true,"streamingProcess":true}`

func TestElasticJobGolden(t *testing.T) {
	t.Parallel()
	r := ElasticJob([]ElasticNode{
		{"orders", []byte("com.example.OrderJob"), []byte(yaml3), true},
		{"stream", nil, []byte(json2), true},
		{"mirror", []byte("SCRIPT"), []byte("cron: 0 0 3 * * ?\njobName: mirror\njobParameter: x\nshardingTotalCount: 1\nprops:\n  script.command.line: /opt/mirror --all /srv\n"), true},
		{"ping", []byte("HTTP"), []byte("cron: 0 0 3 * * ?\nshardingTotalCount: 2\nprops:\n  http.url: http://10.0.0.7/ping\n  http.method: POST\n  http.data: '{\"a\": 1}'\n  http.read.timeout.milliseconds: '2000'\n"), true},
		{"once", []byte("com.example.Once"), []byte("jobName: once\nshardingTotalCount: 1\n"), true},
		{"traced", []byte("com.example.Traced"), []byte("cron: '* * * * * ?'\nshardingTotalCount: 1\njobListenerTypes:\n- DISTRIBUTE\njobExtraConfigurations:\n- !TRACING\n  type: RDB\nlabel: nightly\n"), true},
		{"odd", nil, []byte("cron: &anchor 0 0 3 * * ?\nshardingTotalCount: 1\n"), true},
		{"old", nil, nil, true}, {"leader", nil, nil, false},
	}, Options{Zone: "UTC", Now: testNow})
	checkResult(t, r)
	golden(t, "elasticjob", r)
}

func TestElasticJobFields(t *testing.T) {
	t.Parallel()
	r := ElasticJob([]ElasticNode{{"orders", []byte("com.example.OrderJob"), []byte(yaml3), true}}, Options{Now: testNow})
	want := job.Job{
		Name: "orders", Schedule: "0/5 * * * * ?", TimeZone: "GMT+8:00", Handler: "com.example.OrderJob", Shards: 3,
		Misfire: job.MisfireSkip, Overlap: job.OverlapQueue, Args: map[string]string{"jobParameter": "full"},
		ShardParameters: map[int]string{0: "Beijing", 1: "Shanghai", 2: "Guangzhou"},
	}
	got, _ := find(t, r, "orders").MarshalJSON()
	if text, _ := want.MarshalJSON(); string(got) != string(text) || r.Lost() != 0 {
		t.Errorf("%s\nwant %s\nremarks %+v", got, text, r.Remarks)
	}
}

// A wrong value ends in no job and a remark with its key.
func TestElasticJobRefuses(t *testing.T) {
	t.Parallel()
	for config, key := range map[string]string{
		"cron: x\nshardingTotalCount: 1":                                        "cron",
		"cron: 0 0 3 * * ?\nshardingTotalCount: many":                           "shardingTotalCount",
		"cron: 0 0 3 * * ?\nshardingTotalCount: 010":                            "shardingTotalCount",
		"cron: 0 0 3 * * ?\nshardingTotalCount: -1":                             "cron Shards",
		"cron: 0 0 3 * * ?\nshardingTotalCount: 9999":                           "cron Shards",
		"cron: 0 0 3 * * ?\nshardingTotalCount: 2\nshardingItemParameters: a=b": "shardingItemParameters",
		"cron: 0 0 3 * * ?\nmisfire: maybe":                                     "misfire",
		"cron: 0 0 3 * * ?\nprops: [a]":                                         "props",
		"cron: 0 0 3 * * ?\ntimeZone: Moon/Tycho":                               "cron TimeZone",
		"cron: 0 0 3 * * ?\ncron: 0 0 4 * * ?":                                  "config",
		"cron: !expression 0 0 3 * * ?":                                         "cron",
		"cron: *a":                                                              "config",
		"{\"cron\":":                                                            "config",
		"[1]":                                                                   "config",
		"- cron: x":                                                             "config",
		strings.Repeat("a:\n", maxConfig):                                       "config",
		strings.Repeat("{\"a\":", 5000):                                         "config",
	} {
		r := ElasticJob([]ElasticNode{{"a", nil, []byte(config), true}}, Options{Zone: "UTC", Now: testNow})
		if len(r.Jobs) != 0 || r.Lost() == 0 || r.Remarks[0].Field != key {
			t.Errorf("%.60q: %+v, want a remark about %q", config, r, key)
		}
	}
}

// Every node becomes a job or a remark.
func FuzzElasticJob(f *testing.F) {
	f.Add(yaml3, "com.example.OrderJob")
	f.Add(json2, "")
	f.Add("props:\n  script.command.line: \"a\\\n    \\ b\"\nshardingTotalCount: 1\ncron: |-\n  * * * * *", "SCRIPT")
	f.Add("props:\n  http.url: x\njobListenerTypes:\n- A\n", "HTTP")
	f.Fuzz(func(t *testing.T, config, class string) {
		r := ElasticJob([]ElasticNode{{"a", []byte(class), []byte(config), true}}, Options{Zone: "UTC", Now: testNow})
		checkResult(t, r)
		if len(r.Jobs) == 0 && r.Lost() == 0 {
			t.Error("neither a job nor a remark")
		}
	})
}
