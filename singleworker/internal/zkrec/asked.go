package zkrec

import (
	"time"
	"unique"

	"github.com/swjobs/singleworker/singleworker/history"
)

// maxWhoBytes is how much is kept of who asked something of a run, and of the reason.
const maxWhoBytes = 100

// AskedFor notes who asked for the run.
func (r *Run) AskedFor(by history.Asked) {
	r.Asked = r.Asked.with(func(a *history.Asked) {
		a.AskedBy, a.AskedReason, a.Past = cut(by.AskedBy, maxWhoBytes), cut(by.AskedReason, maxWhoBytes), by.Past
	})
}

// Stopped notes who asked for the end of the run. The zero Request is nobody's.
func (r *Run) Stopped(by Request) {
	r.Asked = r.Asked.with(func(a *history.Asked) {
		a.StoppedBy, a.StoppedReason = cut(by.By, maxWhoBytes), cut(by.Reason, maxWhoBytes)
	})
}

// Asked is who asked for a run, and for its end. Effects are what a resolver has found.
type (
	Asked   = Rare[history.Asked]
	Effects = Rare[history.Effects]
)

// EffectsOf keeps of as it is read back, found at that time.
func EffectsOf(of history.Effects, found time.Time) Effects {
	at := UTC(of.At.Round(time.Millisecond))
	if at.IsZero() {
		at = UTC(found.Round(time.Millisecond))
	}
	return RareOf(history.Effects{RunID: cut(of.RunID, maxWhoBytes), InstanceID: cut(of.InstanceID, maxWhoBytes), At: at})
}

// Rare keeps a T in the space of one pointer: each idle slot has a record in memory, and few runs
// have one. Two that say the same are equal.
type Rare[T comparable] struct{ of unique.Handle[rare[T]] }

type rare[T comparable] struct {
	value   T
	unknown Unknown
}

// RareOf keeps of. The zero T is the zero Rare.
func RareOf[T comparable](of T) Rare[T] { return rare[T]{value: of}.keep() }

func (v rare[T]) keep() (r Rare[T]) {
	if v != (rare[T]{}) {
		r.of = unique.Make(v)
	}
	return r
}

// Value returns the T.
func (r Rare[T]) Value() T { return r.get().value }

func (r Rare[T]) get() (v rare[T]) {
	if r != (Rare[T]{}) {
		v = r.of.Value()
	}
	return v
}

// with returns r with what change makes of it.
func (r Rare[T]) with(change func(*T)) Rare[T] {
	v := r.get()
	change(&v.value)
	return v.keep()
}

// MarshalJSON implements json.Marshaler.
func (r Rare[T]) MarshalJSON() ([]byte, error) {
	v := r.get()
	return v.unknown.Encode(v.value), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Rare[T]) UnmarshalJSON(data []byte) (err error) {
	var v rare[T]
	err = v.unknown.Decode(data, &v.value)
	*r = v.keep()
	return err
}
