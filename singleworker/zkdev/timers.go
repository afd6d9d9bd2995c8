package zkdev

import (
	"cmp"
	"slices"
	"time"
)

// Timers are calls for later, and the time of the next alarm. They belong to core.
type timers struct {
	alarm  time.Time // when to call wake; zero for never
	delays []delay   // sorted by time
}

// A delay is a deferred call.
type delay struct {
	at time.Time
	do func()
}

func (t *timers) after(d time.Duration, do func()) {
	at := time.Now().Add(d)
	i, _ := slices.BinarySearchFunc(t.delays, at, func(a delay, t time.Time) int {
		return cmp.Or(a.at.Compare(t), -1) // after those at the same time
	})
	t.delays = slices.Insert(t.delays, i, delay{at: at, do: do})
	t.wakeAt(at)
}

func (t *timers) wakeAt(at time.Time) {
	if t.alarm.IsZero() || at.Before(t.alarm) {
		t.alarm = at
	}
}

// ring makes the calls that are due, and nothing else: an early alarm does no harm.
func (t *timers) ring(now time.Time) {
	t.alarm = time.Time{}
	for len(t.delays) > 0 && !t.delays[0].at.After(now) {
		do := t.delays[0].do
		t.delays = t.delays[1:]
		do()
	}
	if len(t.delays) > 0 {
		t.wakeAt(t.delays[0].at)
	}
}
