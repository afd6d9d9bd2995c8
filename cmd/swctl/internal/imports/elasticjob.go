package imports

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/swjobs/singleworker/singleworker/job"
)

// ElasticNode is what ElasticJob keeps of a job in ZooKeeper, below the namespace.
type ElasticNode struct {
	Name   string
	Class  []byte // the data of the job's node: in 3.x its class, or its type such as SCRIPT
	Config []byte // the data of its config node: YAML in 3.x, JSON in 2.x and 1.x
	Found  bool   // it has a config node
}

const maxConfig = 64 << 10

// ElasticJob makes jobs of the ones of a namespace.
func ElasticJob(nodes []ElasticNode, opts Options) Result {
	m := newMaker(opts)
	for _, node := range nodes {
		e := elastic{maker: m, name: m.unique(node.Name), asked: map[string]bool{}}
		switch {
		case !node.Found || len(node.Config) == 0:
			e.lostf(e.name, "config", "check the namespace; ElasticJob up to 1.1 keeps a node for each field, which is not read", "there is no job for it: the node has no configuration")
		case len(node.Config) > maxConfig || !utf8.Valid(node.Config):
			e.lostf(e.name, "config", "look at the node", "there is no job for it: its configuration has %d bytes, at most %d are read, or is not UTF-8", len(node.Config), maxConfig)
		default:
			if err := e.parse(node.Config); err != nil {
				e.lostf(e.name, "config", "correct it in ElasticJob, or submit the job manually", "there is no job for it: its configuration %s", quoted(err.Error()))
				continue
			}
			e.job(node)
		}
	}
	if len(m.Jobs) > 0 {
		m.notef("", "all jobs", "register a handler for each class", "ticks that were missed while nothing ran are skipped, as ElasticJob does; "+
			"fields that have ElasticJob's default and need nothing here are not listed")
	}
	return m.result()
}

// elastic reads one configuration.
type elastic struct {
	*maker

	name   string
	values map[string]yaml.Node
	asked  map[string]bool
	failed bool
}

// parse reads YAML, or JSON, which is YAML, too.
func (e *elastic) parse(text []byte) error {
	if err := yaml.Unmarshal(text, &e.values); err != nil {
		return fmt.Errorf("is not YAML, or not that of a job: %w", err)
	}
	return nil
}

// text is the value of a key. What cannot be read ends in no job.
func (e *elastic) text(key string) string {
	e.asked[key] = true
	text, err := textOf(e.values[key])
	if err != nil {
		e.fail(key, err)
	}
	return text
}

// textOf is a value as it stands there, whatever YAML takes it for: empty if there is none. A tag
// makes something else of it.
func textOf(n yaml.Node) (string, error) {
	switch {
	case isEmpty(n):
		return "", nil
	case n.Kind == yaml.ScalarNode && (n.Style&yaml.TaggedStyle == 0 || n.Tag == "!!str"):
		return n.Value, nil
	}
	return "", fmt.Errorf("want text, have %q", remarked(n))
}

// isEmpty reports whether there is nothing: an empty list or map, null or no text.
func isEmpty(n yaml.Node) bool {
	return n.Kind != yaml.AliasNode && len(n.Content) == 0 && (n.Value == "" || n.Tag == "!!null")
}

// remarked is a value for a remark.
func remarked(n yaml.Node) string {
	text, err := yaml.Marshal(&n)
	if err != nil { // a part of a document, which refers to another one
		return n.Value
	}
	return part(string(text))
}

func (e *elastic) fail(key string, err error) {
	e.lostf(e.name, key, "correct it in ElasticJob, or submit the job manually", "there is no job for it: %s", quoted(err.Error()))
	e.failed = true
}

func (e *elastic) isTrue(key string, fallback bool) bool {
	switch text := e.text(key); text {
	case "":
		return fallback
	case "true", "false":
		return text == "true"
	default:
		e.fail(key, fmt.Errorf("want true or false, not %q", part(text)))
		return fallback
	}
}

func (e *elastic) number(key string, fallback int) int {
	text := e.text(key)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(n) != text {
		e.fail(key, fmt.Errorf("want a number, not %q", part(text)))
	}
	return n
}

func (e *elastic) job(node ElasticNode) {
	class := cmp.Or(strings.TrimSpace(string(node.Class)), e.text("jobClass"))
	if name := e.text("jobName"); name != "" && name != node.Name {
		e.notef(e.name, "jobName", "", "is %q in the configuration of the node %q", part(name), part(node.Name))
	}
	j := job.Job{
		Name: e.name, Description: e.text("description"), Handler: validName(cmp.Or(class, e.name)),
		Schedule: strings.Join(strings.Fields(e.text("cron")), " "),
		Misfire:  job.MisfireSkip, Interrupted: job.InterruptedSkip,
	}
	if zone := e.text("timeZone"); j.Schedule != "" || zone != "" {
		j.TimeZone = e.zone(zone)
	}
	if j.Schedule == "" && !e.failed {
		j.Schedule = "@manually"
		e.notef(e.name, "cron", "swctl trigger NAME", "has no schedule: it runs when somebody asks for it")
	}
	if e.isTrue("misfire", true) { // ElasticJob's word for a tick that comes during a run
		j.Overlap = job.OverlapQueue
	}
	if e.isTrue("failover", false) {
		j.Interrupted = job.InterruptedRerun
	}
	if label := e.text("label"); label != "" {
		j.Labels = map[string]string{"label": label}
	}
	e.shards(&j)
	e.work(&j, class)
	e.rest()
	if !e.failed {
		e.add(j, "cron")
	}
}

// shards reads the items, and "0=Beijing,1=Shanghai".
func (e *elastic) shards(j *job.Job) {
	j.Shards = e.number("shardingTotalCount", 1)
	text := strings.TrimSpace(e.text("shardingItemParameters"))
	if text != "" {
		j.ShardParameters = map[int]string{}
		for pair := range strings.SplitSeq(text, ",") {
			key, value, ok := strings.Cut(pair, "=")
			k, err := strconv.Atoi(strings.TrimSpace(key))
			switch {
			case !ok || err != nil || k < 0:
				e.fail("shardingItemParameters", fmt.Errorf("want 0=Beijing,1=Shanghai, not %q", part(text)))
				return
			case k >= j.Shards:
				e.lostf(e.name, "shardingItemParameters", "nothing, or more shards", "the parameter of item %d is left out: the job has %d", k, j.Shards)
			default:
				j.ShardParameters[k] = strings.TrimSpace(value)
			}
		}
	}
	if j.Shards == 1 && len(j.ShardParameters) == 0 {
		j.Shards = 0 // not divided: its run has shard 0 of 1 in any case
	}
}

// work is the handler, and its arguments.
func (e *elastic) work(j *job.Job, class string) {
	props, err := map[string]string{}, error(nil)
	e.asked["props"] = true
	if value := e.values["props"]; !isEmpty(value) {
		var nested map[string]yaml.Node
		err = value.Decode(&nested)
		for key, value := range nested {
			text, bad := textOf(value)
			props[key], err = text, cmp.Or(err, bad)
		}
	}
	if err != nil {
		e.fail("props", err)
		return
	}
	kind, parameter := strings.ToUpper(cmp.Or(e.text("jobType"), class)), e.text("jobParameter")
	script := cmp.Or(e.text("scriptCommandLine"), props["script.command.line"])
	delete(props, "script.command.line")
	switch {
	case script != "" || kind == "SCRIPT":
		if script == "" {
			e.fail("scriptCommandLine", errors.New("a script job has no command line"))
			return
		}
		e.command(j, "/bin/sh", script)
		e.lostf(e.name, "script", "let the script read SINGLEWORKER_SHARD, SINGLEWORKER_SHARDS and SINGLEWORKER_SHARD_PARAMETER", "does not get the sharding context as its last argument")
		if parameter != "" {
			e.lostf(e.name, "jobParameter", "write it into the command line", "the script does not get %q", part(parameter))
		}
	case props["http.url"] != "" || kind == "HTTP":
		e.http(j, props)
		if parameter != "" {
			e.lostf(e.name, "jobParameter", "write it into the URL or the body", "the server does not get %q", part(parameter))
		}
	default:
		if parameter != "" {
			props["jobParameter"] = parameter
		}
		if e.isTrue("streamingProcess", false) || props["streaming.process"] == "true" || kind == "DATAFLOW" {
			e.lostf(e.name, "dataflow", "let the handler fetch and process until there is no data", "its handler is called once for a tick")
		}
		delete(props, "streaming.process")
		if len(props) > 0 {
			j.Args = props
		}
		return
	}
	e.isTrue("streamingProcess", false) // ElasticJob writes it for every type
	delete(props, "streaming.process")
	for _, key := range slices.Sorted(maps.Keys(props)) {
		e.lostf(e.name, "props "+key, "look what it is for", "the handler %s does not take it: %q", j.Handler, part(props[key]))
	}
}

// http makes arguments for jobs.HTTP, and takes them out of props.
func (e *elastic) http(j *job.Job, props map[string]string) {
	j.Handler, j.Args = handlerHTTP, map[string]string{}
	for from, to := range map[string]string{"http.url": "url", "http.method": "method", "http.data": "body", "http.content.type": "header.Content-Type"} {
		if props[from] != "" {
			j.Args[to] = props[from]
		}
		delete(props, from)
	}
	e.lostf(e.name, "http", "register jobs.HTTP as the handler "+handlerHTTP+"; let the server read X-Singleworker-Shard, X-Singleworker-Shards and X-Singleworker-Shard-Parameter",
		"the server does not get the header shardingContext")
}

// rest remarks on the fields that no job has. Those with a default need nothing here.
func (e *elastic) rest() {
	for _, f := range []struct {
		key, text, do string
		defaults      []string
	}{
		{"disabled", "is disabled in ElasticJob; a job file cannot say that", "submit it alone, with --paused", []string{"false"}},
		{"overwrite", "ElasticJob would overwrite the configuration at its start", "declare the job in code, or swctl submit --replace", []string{"false"}},
		{"monitorExecution", "runs are recorded in any case", "nothing", []string{"true", "false"}},
		{"maxTimeDiffSeconds", "the limit on clocks is one of the instance", "Config.MaxClockOffset", []string{"-1", "0"}},
		{"monitorPort", "no port is opened for dumps", "swctl show NAME -o json", []string{"-1", "0"}},
		{"reconcileIntervalMinutes", "there is nothing to reconcile: owners watch their leases", "nothing", []string{"10", "0", "-1"}},
		{"staticSharding", "shards move when instances join or leave", "Job.Instances, to say where they may run", []string{"false"}},
		{"jobShardingStrategyType", "shards are balanced by weights", "Config.Weight, Job.Require and Job.Instances", []string{"AVG_ALLOCATION"}},
		{"jobShardingStrategyClass", "shards are balanced by weights", "Config.Weight, Job.Require and Job.Instances", nil},
		{"jobExecutorServiceHandlerType", "runs have no pool of their number", "Config.MaxRunning", []string{"CPU"}},
		{"jobExecutorThreadPoolSizeProviderType", "runs have no pool of their number", "Config.MaxRunning", []string{"CPU"}},
		{"jobErrorHandlerType", "errors are recorded and logged", "Hooks.OnRunEnd", []string{"LOG"}},
	} {
		e.asked[f.key] = true
		if value := e.values[f.key]; !isEmpty(value) && !slices.Contains(f.defaults, value.Value) {
			e.lostf(e.name, f.key, f.do, "%s: %q", f.text, remarked(value))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.values)) {
		if value := e.values[key]; !e.asked[key] && !isEmpty(value) {
			e.lostf(e.name, key, "Hooks, or the handler", "has no counterpart: %q", remarked(value))
		}
	}
}
