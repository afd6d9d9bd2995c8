package job_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// everything is a job none of whose fields has its default.
func everything() job.Job {
	return job.Job{
		Name: "daily", Description: "the numbers\nof the day", Labels: map[string]string{"team": "billing", "tier": "gold"},
		Schedule: "0 3 * * *", TimeZone: "Europe/Berlin", Handler: "stats",
		Require: map[string]string{"zone": "a"}, Instances: []string{"app-1", "app-2"},
		Args: map[string]string{"a": "<1>", "b": "2"}, Payload: json.RawMessage(`{"n":[1,2]}`),
		Misfire: job.MisfireAll, MisfireGrace: 90 * time.Minute, Interrupted: job.InterruptedSkip, MaxAttempts: 5,
		Overlap: job.OverlapQueue, Timeout: 1500 * time.Millisecond, Retries: 2, Backoff: job.NoBackoff,
		AlarmAfter: 2 * time.Minute, HungAfter: 20 * time.Minute,
		Notify:   map[string][]job.NotifyKind{"ops": {}, "dev": {job.NotifyFailed, job.NotifyRecovered}},
		KeepDone: job.KeepForever, Shards: 3, ShardParameters: map[int]string{0: "Beijing", 2: "Shanghai"},
	}
}

// The names are a contract: files and programs have them.
const everythingJSON = `{"name":"daily","description":"the numbers\nof the day","labels":{"team":"billing","tier":"gold"},"schedule":"0 3 * * *","time_zone":"Europe/Berlin","handler":"stats","require":{"zone":"a"},"instances":["app-1","app-2"],` +
	`"args":{"a":"<1>","b":"2"},"payload":{"n":[1,2]},"misfire":"all","misfire_grace":"1h30m0s","interrupted":"skip",` +
	`"max_attempts":5,"overlap":"queue","timeout":"1.5s","retries":2,"backoff":"none","alarm_after":"2m0s","hung_after":"20m0s",` +
	`"notify":{"dev":["failed","recovered"],"ops":[]},"keep_done":"forever","shards":3,` +
	`"shard_params":{"0":"Beijing","2":"Shanghai"}}`

func TestJSON(t *testing.T) {
	t.Parallel()
	for text, j := range map[string]job.Job{
		everythingJSON:                         everything(),
		`{"name":"j","schedule":"@daily"}`:     {Name: "j", Schedule: "@daily"},
		`{"schedule":"","alarm_after":"none"}`: {AlarmAfter: job.NoAlarm},
		`{"schedule":"","hung_after":"none"}`:  {HungAfter: job.NoHung},
		`{"schedule":"","keep_done":"1h0m0s"}`: {KeepDone: time.Hour},
	} {
		if got, err := j.MarshalJSON(); err != nil || string(got) != text {
			t.Errorf("written as %s, %v\nwant       %s", got, err, text)
		}
		read := job.Job{Name: "of before", Retries: 7}
		if err := json.Unmarshal([]byte(text), &read); err != nil || !reflect.DeepEqual(read, j) {
			t.Errorf("read as %+v, %v\nwant    %+v", read, err, j)
		}
	}
	var read job.Job
	if err := json.Unmarshal([]byte(`{"schedule":"@daily","args":null,"timeout":null}`), &read); err != nil || read.Args != nil {
		t.Errorf("null is read as %+v, %v; want it to say nothing", read, err)
	}
}

func TestJSONThatIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"schedule":"@daily","retry":3}`:      `job.retry "3": is not a field of a job`,
		`{"Schedule":"@daily"}`:                `job.Schedule "\"@daily\"": is not a field of a job`,
		`{"timeout":60}`:                       `job.timeout "60": want a duration such as "1m30s"`,
		`{"backoff":"1 minute"}`:               `job.backoff "\"1 minute\"": want a duration such as "1m30s"`,
		`{"notify":["ops"]}`:                   `job.notify "[\"ops\"]": json: cannot unmarshal array`,
		`{"retries":"3"}`:                      `job.retries "\"3\"": json: cannot unmarshal string into Go value of type int`,
		`{"shard_params":{"first":"Beijing"}}`: `job.shard_params "{\"first\":\"Beijing\"}": json: cannot unmarshal`,
		`[]`:                                   `job: json: cannot unmarshal array`,
	} {
		read := job.Job{Name: "of before"}
		err := json.Unmarshal([]byte(text), &read)
		if err == nil || !strings.HasPrefix(err.Error(), want) || read.Name != "of before" {
			t.Errorf("%s: %v, and the job is %+v\nwant %s", text, err, read, want)
		}
	}
}

func TestYAMLHasTheNamesOfJSON(t *testing.T) {
	t.Parallel()
	of := reflect.TypeFor[job.Job]()
	for i := range of.NumField() {
		if tags := of.Field(i).Tag; of.Field(i).IsExported() && (tags.Get("json") == "" || tags.Get("json") != tags.Get("yaml")) {
			t.Errorf("%s is %q in JSON and %q in YAML", of.Field(i).Name, tags.Get("json"), tags.Get("yaml"))
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	bare := job.Job{Name: "daily", Schedule: "@daily"}
	full := job.Job{
		Name: "daily", Schedule: "@daily", TimeZone: "UTC", Handler: "daily", Misfire: "once", Interrupted: "rerun",
		MaxAttempts: 3, Overlap: "skip", Backoff: time.Second, AlarmAfter: time.Minute, KeepDone: 24 * time.Hour,
	}
	if got := bare.WithDefaults(); !reflect.DeepEqual(got, full) {
		t.Errorf("with defaults %+v\nwant          %+v", got, full)
	}
	if got := full.Normal(); !reflect.DeepEqual(got, bare) {
		t.Errorf("normal %+v\nwant   %+v", got, bare)
	}
	a, b := job.Job{Notify: map[string][]job.NotifyKind{"ops": nil}}, job.Job{Notify: map[string][]job.NotifyKind{"ops": {}}}
	if !reflect.DeepEqual(a.Normal(), b.Normal()) {
		t.Errorf("normal %+v and %+v, which mean the same", a.Normal(), b.Normal())
	}
	a.Notify["ops"] = []job.NotifyKind{job.NotifyRecovered, job.NotifyFailed}
	if got := a.Normal().Notify["ops"]; !slices.Equal(got, []job.NotifyKind{job.NotifyFailed, job.NotifyRecovered}) || a.Notify["ops"][0] != job.NotifyRecovered {
		t.Errorf("normal %q, of %q", got, a.Notify["ops"])
	}
	for _, same := range []job.Job{everything(), (job.Job{Name: "j", Backoff: job.NoBackoff, AlarmAfter: job.NoAlarm}).WithDefaults()} {
		if got := same.Normal().WithDefaults(); !reflect.DeepEqual(got, same) {
			t.Errorf("got  %+v\nwant %+v", got, same)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	original := everything()
	clone := original.Clone()
	clone.Require["zone"], clone.Instances[0] = "x", "x"
	clone.Notify["dev"][0], clone.Notify["new"] = "x", nil
	clone.Labels["team"], clone.Args["a"], clone.Payload[1], clone.ShardParameters[0] = "x", "x", 'x', "x"
	if !reflect.DeepEqual(original, everything()) {
		t.Errorf("a change of the clone made it %+v", original)
	}
}
