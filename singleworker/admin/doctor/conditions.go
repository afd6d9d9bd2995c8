package doctor

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
)

// jobs judges each job by its conditions. Those behind one that says how the job stands are
// explained by it.
func (x *examiner) jobs() {
	well := 0
	for _, j := range x.Jobs {
		before := len(x.worded)
		for _, c := range j.Conditions {
			if c.Severity > reason.Fine {
				x.has(j.Name, c)
			}
			if c.State != "" {
				break
			}
		}
		if len(x.worded) == before {
			well++
		}
	}
	x.declarations()
	x.add("jobs", reason.Fine, nil, "", "%d of %d jobs have nothing wrong", well, len(x.Jobs))
	x.tell("job")
}

// freeze tells once that the group is frozen.
func (x *examiner) freeze() {
	for _, j := range x.Jobs {
		if c, frozen := j.Condition(reason.Frozen); frozen {
			x.add("freeze", reason.Notice, nil, c.Remedy, "%s", c.Detail)
			return
		}
	}
}

// declarations judges in which jobs instances differ, also those that have something worse. In a
// deploy they do, and the newer version holds.
func (x *examiner) declarations() {
	var differ []string
	for _, j := range x.Jobs {
		c, conflict := j.Condition(reason.Conflict)
		told := slices.ContainsFunc(x.worded, func(w worded) bool { return w.of == j.Name && w.Code == reason.Conflict })
		switch {
		case conflict && !told:
			x.has(j.Name, c)
		case !conflict && len(j.Declarations) > 0:
			differ = append(differ, j.Name)
		}
	}
	if len(differ) > 0 {
		x.add("declarations", reason.Fine, differ, "", "%s: older and newer versions declare different jobs, and the newest holds", list(differ, "job"))
	}
}

// worded is a condition of a job, or an instance.
type worded struct {
	reason.Condition

	of string
}

func (x *examiner) has(of string, c reason.Condition) { x.worded = append(x.worded, worded{c, of}) }

// cause tells apart the causes of one condition: of a job that nobody runs, by the text.
func (w worded) cause() string {
	if w.Severity == reason.Broken {
		return string(w.Code) + plain.FirstLine(w.Detail)
	}
	return string(w.Code)
}

// tell makes a check of the conditions that jobs, or instances, have for the same cause.
func (x *examiner) tell(what string) {
	for len(x.worded) > 0 {
		first := x.worded[0]
		var of []string
		same := true // all say the same
		x.worded = slices.DeleteFunc(x.worded, func(w worded) bool {
			if w.cause() != first.cause() {
				return false
			}
			of = append(of, w.of)
			same = same && w.Detail == first.Detail
			return true
		})
		sentence, remedy := plain.FirstLine(first.Detail), first.Remedy
		if m, known := reason.Means(first.Code); known && len(of) > 1 {
			remedy = m.Remedy
			if !same {
				sentence = m.Sentence
			}
		}
		x.add(string(first.Code), first.Severity, of, remedy, "%s: %s", list(of, what), sentence)
	}
}
