package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

// move is how a job went to another instance, in milliseconds after its owner
// was killed or told to stop.
type move struct {
	job    string
	period millis
	to     string
	owned  millis // until another instance owned it, by ZooKeeper's clock
	ran    millis // until its first run there
	missed int    // ticks that nobody ran
}

// moves finds out where the jobs went that an instance owned when it was
// killed or stopped. It fails while one of them has not run elsewhere.
func (d *demo) moves(step string) ([]move, error) {
	at, sid := d.events.at[step], d.events.sid[step]
	if at == 0 {
		return nil, fmt.Errorf("events: no %s", step)
	}
	before, err := readOwners(filepath.Join(d.dir, "before-"+step+".json"))
	if err != nil {
		return nil, err
	}
	after, err := readOwners(filepath.Join(d.dir, "after-"+step+".json"))
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
			return nil, fmt.Errorf("%s is owned by nobody else yet", job)
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

func (d *demo) firstRunElsewhere(m *move, at millis, sid string) bool {
	var last millis // the last tick that the old owner ran
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

// moved prints the moves of a step as a table.
func moved(out io.Writer, dir, step string) error {
	d, err := readDemo(dir)
	if err != nil {
		return err
	}
	list, err := d.moves(step)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tEVERY\tWENT TO\tOWNED AFTER\tRAN AFTER\tTICKS MISSED")
	for _, m := range list {
		fmt.Fprintf(table, "%s\t%d s\t%s\t%d ms\t%d ms\t%d\n", m.job, m.period/1000, m.to, m.owned, m.ran, m.missed)
	}
	return table.Flush()
}

// takeoverBound is how long after a kill a job runs elsewhere at the latest: its
// session ends, the server notices at its next tick, the job's next tick comes.
// For a job that is due each second and a server tick of 500 ms it is 1.5 s more
// than the session timeout.
func (e events) takeoverBound(period millis) millis { return e.session + e.serverTick + period }

// takeovers says how long the takeovers took, for each period: a job that is
// due less often is waited for longer.
func (e events) takeovers(list []move) string {
	worst := make(map[millis]millis)
	for _, m := range list {
		worst[m.period] = max(worst[m.period], m.ran)
	}
	text := ""
	for _, period := range slices.Sorted(maps.Keys(worst)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d ms for jobs every %d s (bound %d)", worst[period], period/1000, e.takeoverBound(period))
	}
	return text
}

// slowestHandOver is the longest time until another instance owned a job.
func slowestHandOver(list []move) millis {
	return slices.MaxFunc(list, func(a, b move) int { return cmp.Compare(a.owned, b.owned) }).owned
}
