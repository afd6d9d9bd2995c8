package imports

import (
	"cmp"
	"maps"
	"strings"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Quartz makes jobs of a file of its XMLSchedulingDataProcessorPlugin, job_scheduling_data_2_0 and
// 1_8. A trigger becomes a job; the handler is named after the class of the job in Quartz.
func Quartz(text []byte, opts Options) Result {
	q := quartz{maker: newMaker(opts), jobs: map[string]*quartzJob{}}
	root, err := parseXML(text)
	if err == nil && root.name != "job-scheduling-data" {
		q.lostf("", root.name, "a file of the XMLSchedulingDataProcessorPlugin", "the root element is not job-scheduling-data")
		return q.result()
	}
	if err != nil {
		q.lostf("", "file", "correct it; if it is in another encoding, convert it with iconv", "%s", quoted(err.Error()))
		return q.result()
	}
	for _, commands := range root.all("pre-processing-commands") {
		for _, command := range commands.children {
			q.lostf("", command.name, "swctl cancel NAME of what is not wanted", "nothing is deleted before the jobs are submitted: %q", part(command.text))
		}
	}
	directives := root.one("processing-directives")
	for _, directive := range directives.children {
		q.notef("", directive.name, "swctl submit --file FILE --replace, if jobs that exist are to be changed", "is %s in the source", part(directive.text))
	}
	for _, schedule := range root.all("schedule") {
		q.schedule(schedule)
	}
	q.leftOver("", root)
	if len(q.Jobs) > 0 {
		q.notef("", "all jobs", "register a handler for each class; it gets the job data map as Args", "Quartz lets runs of a job overlap unless its class has "+
			"@DisallowConcurrentExecution; here a tick that comes during a run is skipped, or waits with the overlap policy queue")
	}
	return q.result()
}

type quartz struct {
	*maker

	jobs  map[string]*quartzJob // by group and name
	order []*quartzJob
}

// quartzJob is a job element, and its triggers.
type quartzJob struct {
	name     string
	durable  bool
	base     job.Job
	triggers []*quartzTrigger
}

type quartzTrigger struct {
	kind    string // cron, simple, calendar-interval
	element *element
}

// keyOf is how a job or a trigger is called, with its group unless that is the default.
func keyOf(name, group string) string {
	if group = cmp.Or(group, "DEFAULT"); group != "DEFAULT" {
		return group + "." + name
	}
	return name
}

func (q *quartz) schedule(schedule *element) {
	q.jobs, q.order = map[string]*quartzJob{}, nil
	for _, e := range schedule.all("job") {
		q.job(e)
	}
	for _, e := range schedule.all("trigger") {
		for _, kind := range e.children {
			kind.used = true
			q.trigger(&quartzTrigger{kind.name, kind})
		}
	}
	q.leftOver("", schedule)
	for _, j := range q.order {
		switch {
		case len(j.triggers) == 0 && j.durable:
			manual := j.base.Clone()
			manual.Name, manual.Schedule = q.unique(j.name), "@manually"
			q.add(manual, "job")
		case len(j.triggers) == 0:
			q.lostf(j.name, "job", "a trigger, or durability", "there is no job for it: it has no trigger and is not durable, so Quartz does not keep it")
		}
		for _, t := range j.triggers {
			name := j.name
			if len(j.triggers) > 1 {
				name += "." + keyOf(t.element.get("name"), t.element.get("group"))
			}
			q.triggered(j, t, q.unique(name))
		}
	}
}

// job reads a job without its triggers.
func (q *quartz) job(e *element) {
	name := validName(keyOf(e.get("name"), e.get("group")))
	if q.jobs[name] != nil {
		q.lostf(name, "job", "another name for one of them", "is there twice: the second is left out")
		return
	}
	j := &quartzJob{name: name, durable: isTrue(e.get("durability"))}
	j.base = job.Job{Description: e.get("description"), Handler: validName(cmp.Or(e.get("job-class"), name)), Interrupted: job.InterruptedSkip}
	if isTrue(cmp.Or(e.get("recover"), e.get("requests-recovery"), e.get("recovery"))) {
		j.base.Interrupted = job.InterruptedRerun
	}
	if isTrue(e.get("volatility")) || isTrue(e.get("stateful")) {
		q.lostf(name, "volatility, stateful", "let the handler keep its state", "has no counterpart")
	}
	j.base.Args = q.data(name, e)
	q.leftOver(name, e)
	q.jobs[name], q.order = j, append(q.order, j)
}

// data is the job data map of a job or a trigger.
func (q *quartz) data(name string, e *element) map[string]string {
	args := map[string]string{}
	for _, data := range e.all("job-data-map") {
		for _, entry := range data.all("entry") {
			key, value := entry.get("key"), entry.get("value")
			if _, twice := args[key]; twice || key == "" {
				q.lostf(name, "job-data-map", "one entry for each key", "the key %q is empty or there twice: the last value counts", part(key))
			}
			args[key] = value
			q.leftOver(name, entry)
		}
		q.leftOver(name, data)
	}
	return args
}

// trigger finds the job of a trigger.
func (q *quartz) trigger(t *quartzTrigger) {
	name := validName(keyOf(t.element.get("job-name"), t.element.get("job-group")))
	j := q.jobs[name]
	if j == nil {
		q.lostf(validName(keyOf(t.element.get("name"), t.element.get("group"))), t.kind, "add the job to the file", "there is no job for the trigger: the file has no job %q", part(name))
		return
	}
	j.triggers = append(j.triggers, t)
}

// triggered makes a job of a trigger.
func (q *quartz) triggered(of *quartzJob, t *quartzTrigger, name string) {
	j, e := of.base.Clone(), t.element
	j.Name = name
	for _, known := range []string{"name", "group", "job-name", "job-group"} {
		e.one(known)
	}
	if text := e.get("description"); text != "" {
		j.Description = strings.TrimSpace(j.Description + "\n" + text)
	}
	if data := q.data(name, e); len(data) > 0 {
		if j.Args == nil {
			j.Args = map[string]string{}
		}
		maps.Copy(j.Args, data) // as in Quartz, those of the trigger win
	}
	if text := e.get("priority"); text != "" && text != "5" {
		q.lostf(name, "priority", "Config.MaxRunning large enough that nothing waits", "is %s: ticks that wait for one another run in the order of their times", part(text))
	}
	if text := e.get("calendar-name"); text != "" {
		calendar := strings.TrimLeft(validName(text), "-")
		j.Calendars = []string{"-" + calendar}
		q.lostf(name, "calendar-name", "swctl calendars set "+calendar+" FILE, before the job is applied", "names the calendar %q, and the file does not say which times that excludes", part(text))
	}
	bounds, ok := q.bounds(name, e)
	if !ok || !q.timed(&j, t, bounds) {
		return
	}
	q.add(j, t.kind)
	q.leftOver(name, e)
}

// leftOver remarks on elements that nobody asked for.
func (q *quartz) leftOver(name string, e *element) {
	for _, other := range e.unused() {
		q.lostf(name, other.name, "look what it is for", "is not known, or there twice: %q", part(other.text))
	}
}

func isTrue(text string) bool { return text == "true" || text == "1" }
