package render

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Event is a line: when it happened, to what, and what.
func (p Page) Event(ev admin.Event) {
	at := p.at(ev.At, time.UTC)
	if at == "" {
		at = "-"
	}
	name := ev.Job + ev.InstanceID
	if name == "" {
		name = "-"
	}
	const timeWidth, nameWidth = len(plain.TimeLayout), 20
	p.linef("%-*s  %-*s  %s", timeWidth, at, nameWidth, name, words.Event(ev))
}
