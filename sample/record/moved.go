package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// move is how a job moved to another instance, in milliseconds after its owner
// was killed or told to stop.
type move struct {
	job    string
	period Millis
	to     string
	owned  Millis // until another instance owned it, by ZooKeeper's clock
	ran    Millis // until its first run there
	missed int    // ticks that nobody ran
}

// moves returns where the jobs of an instance moved after it was killed or
// stopped. It returns an error while one of them has not run elsewhere.
func (d *demo) moves(step string) ([]move, error) {
	at, sid := d.events.at[step], d.events.sid[step]
	if at == 0 {
		return nil, fmt.Errorf("events: no %s", step)
	}
	before, err := d.dir.readOwners("before-" + step)
	if err != nil {
		return nil, err
	}
	after, err := d.dir.readOwners("after-" + step)
	if err != nil {
		return nil, err
	}
	var list []move
	for _, job := range slices.Sorted(maps.Keys(before)) {
		if before[job].SID != sid {
			continue
		}
		now := after[job]
		if now.SID == "" || now.SID == sid {
			return nil, fmt.Errorf("%s has no other owner yet", job)
		}
		m := move{job: job, period: d.events.periods[job], to: now.SID, owned: now.Since - at}
		if !d.firstRunElsewhere(&m, at, sid) {
			return nil, fmt.Errorf("%s has not run elsewhere yet", job)
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s owned no job", sid)
	}
	return list, nil
}

func (d *demo) firstRunElsewhere(m *move, at Millis, sid string) bool {
	var last Millis // the last tick that the old owner ran
	for _, r := range d.runs[m.job] {
		switch {
		case r.SID == sid:
			last = max(last, r.Tick)
		case r.Start > at:
			m.ran = r.Start - at
			if last > 0 {
				m.missed = int((r.Tick-last)/m.period) - 1
			}
			return true
		}
	}
	return false
}

// Moved returns a table of where the jobs of an instance moved after it was killed or stopped: step
// is kill or stop. It returns an error while one of them has not run elsewhere.
func (d Dir) Moved(step string) (string, error) {
	all, err := d.read()
	if err != nil {
		return "", err
	}
	list, err := all.moves(step)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tEVERY\tWENT TO\tOWNED AFTER\tRAN AFTER\tTICKS MISSED")
	for _, m := range list {
		fmt.Fprintf(table, "%s\t%d s\t%s\t%d ms\t%d ms\t%d\n", m.job, m.period/1000, m.to, m.owned, m.ran, m.missed)
	}
	err = table.Flush()
	return text.String(), err
}

// takeoverBound is the upper bound of the time from a kill to the run of a job elsewhere that was
// idle then: its period, the grace in which its owner could have claimed its next tick, and the
// delay of a busy machine. The session does not matter.
func takeoverBound(period Millis) Millis { return period + 1000 }

// takeovers formats the longest takeover per job period.
func takeovers(list []move) string {
	worst := make(map[Millis]Millis)
	for _, m := range list {
		worst[m.period] = max(worst[m.period], m.ran)
	}
	text := ""
	for _, period := range slices.Sorted(maps.Keys(worst)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d ms for jobs every %d s (bound %d)", worst[period], period/1000, takeoverBound(period))
	}
	return text
}

// slowestHandOver returns the longest time until another instance owned a job.
func slowestHandOver(list []move) Millis {
	return slices.MaxFunc(list, func(a, b move) int { return cmp.Compare(a.owned, b.owned) }).owned
}
