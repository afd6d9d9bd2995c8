package zkrec

import (
	"unique"

	"github.com/swjobs/singleworker/singleworker/history"
)

// maxWhoBytes is how much is kept of who asked something of a run, and of the reason.
const maxWhoBytes = 100

// AskedFor notes who asked for the run.
func (r *Run) AskedFor(by Request) {
	r.Asked = r.Asked.with(func(a *history.Asked) {
		a.AskedBy, a.AskedReason = cut(by.By, maxWhoBytes), cut(by.Reason, maxWhoBytes)
	})
}

// Stopped notes who asked for the end of the run. The zero Request is nobody's.
func (r *Run) Stopped(by Request) {
	r.Asked = r.Asked.with(func(a *history.Asked) {
		a.StoppedBy, a.StoppedReason = cut(by.By, maxWhoBytes), cut(by.Reason, maxWhoBytes)
	})
}

// Asked keeps a history.Asked in the space of one pointer: each idle slot has a record in memory,
// and few runs were asked for. Two that say the same are equal.
type Asked struct{ of unique.Handle[asked] }

type asked struct {
	history.Asked
	unknown Unknown
}

// AskedOf keeps of. The zero history.Asked is the zero Asked.
func AskedOf(of history.Asked) Asked { return asked{Asked: of}.keep() }

func (v asked) keep() (a Asked) {
	if v != (asked{}) {
		a.of = unique.Make(v)
	}
	return a
}

// Value returns the texts.
func (a Asked) Value() history.Asked { return a.value().Asked }

func (a Asked) value() (v asked) {
	if a != (Asked{}) {
		v = a.of.Value()
	}
	return v
}

// with returns a with what change makes of it.
func (a Asked) with(change func(*history.Asked)) Asked {
	v := a.value()
	change(&v.Asked)
	return v.keep()
}

// MarshalJSON implements json.Marshaler.
func (a Asked) MarshalJSON() ([]byte, error) {
	v := a.value()
	return v.unknown.Encode(v.Asked), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Asked) UnmarshalJSON(data []byte) (err error) {
	var v asked
	err = v.unknown.Decode(data, &v.Asked)
	*a = v.keep()
	return err
}
