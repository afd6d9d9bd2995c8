package offset_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/offset"
)

// world is an instance's clocks and ZooKeeper's, as they really are.
type world struct {
	rng *rand.Rand

	passed   time.Duration // true time
	mono     time.Duration
	wallOff  time.Duration // wall clock - true time
	ours     float64       // by how much our clocks run too fast
	serverIs time.Duration // ZooKeeper's clock - true time
	theirs   float64
}

var epoch = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0))}
	w.wallOff, w.serverIs = w.between(-time.Hour, time.Hour), w.between(-time.Hour, time.Hour)
	w.ours, w.theirs = (w.rng.Float64()-0.5)*400e-6, (w.rng.Float64()-0.5)*400e-6
	return w
}

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)+1))
}

func (w *world) pass(d time.Duration) {
	fast := time.Duration(float64(d) * w.ours)
	w.passed += d
	w.mono += d + fast
	w.wallOff += fast
	w.serverIs += time.Duration(float64(d) * w.theirs)
}

func (w *world) read() offset.Reading {
	return offset.Reading{Mono: w.mono, Wall: epoch.Add(w.passed + w.wallOff)}
}

func (w *world) truth() time.Duration { return w.wallOff - w.serverIs }

// write is a request that takes some time there, and some time back. ZooKeeper writes whole
// milliseconds.
func (w *world) write(there, back time.Duration) (sent, answered offset.Reading, applied time.Time) {
	sent = w.read()
	w.pass(there)
	applied = time.UnixMilli(epoch.Add(w.passed + w.serverIs).UnixMilli())
	w.pass(back)
	return sent, w.read(), applied
}

// The offset is inside the interval, whatever happens to requests and to this instance's clocks.
func TestTheOffsetIsInside(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWorld(seed)
		var e offset.Estimator
		if _, known := e.Now(w.read()); known {
			t.Fatal("known before there was a measurement")
		}
		longest := []time.Duration{time.Millisecond, 50 * time.Millisecond, 5 * time.Second}[seed%3]
		disturbed := false // since the last measurement: a clock that is set and suspended may look like one that is right
		for step := range 200 {
			what := w.rng.IntN(8)
			if disturbed {
				what = 3
			}
			switch disturbed = what < 2; what {
			case 0: // the clock is set
				w.wallOff += w.between(-time.Minute, time.Minute)
			case 1: // the machine is suspended: its monotonic clock stops
				d := w.between(0, time.Minute)
				mono := w.mono
				w.pass(d)
				w.mono = mono
			case 2: // the clock is set while a request is under way
				sent := w.read()
				w.pass(w.between(0, longest))
				applied := time.UnixMilli(epoch.Add(w.passed + w.serverIs).UnixMilli())
				w.wallOff += w.between(-time.Minute, time.Minute)
				w.pass(w.between(0, longest))
				e.Answered(sent, w.read(), applied)
			default:
				e.Answered(w.write(w.between(0, longest), w.between(0, longest)))
			}
			w.pass(w.between(0, 10*time.Second))
			if is, known := e.Now(w.read()); known && (w.truth() < is.Low || w.truth() > is.High) {
				t.Fatalf("seed %d, step %d: the offset is %v, want one from %v to %v", seed, step, w.truth(), is.Low, is.High)
			}
		}
	}
}

// Two requests that overlap are taken in in any order.
func TestOrderOfAnswers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWorld(seed)
		var e offset.Estimator
		s1, a1, at1 := w.write(w.between(0, time.Second), w.between(0, time.Second))
		w.pass(w.between(0, time.Second))
		w.wallOff += w.between(-time.Second, time.Second)
		s2, a2, at2 := w.write(w.between(0, time.Second), w.between(0, time.Second))
		e.Answered(s2, a2, at2)
		e.Answered(s1, a1, at1)
		if is, _ := e.Now(w.read()); w.truth() < is.Low || w.truth() > is.High {
			t.Fatalf("seed %d: the offset is %v, want one from %v to %v", seed, w.truth(), is.Low, is.High)
		}
	}
}

// Measurements narrow the interval down to the possible offsets for the fastest way there and the
// fastest way back.
func TestMeasurementsNarrowDown(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	var e offset.Estimator
	e.Answered(w.write(time.Second, time.Millisecond))
	e.Answered(w.write(time.Millisecond, time.Second))
	is, _ := e.Now(w.read())
	if is.Bound() > 3*time.Millisecond || (is.Mid()-w.truth()).Abs() > is.Bound() {
		t.Errorf("%v, within %v; want %v within 3ms", is.Mid(), is.Bound(), w.truth())
	}
}

// The answer to an earlier request, which comes late and after the clock was set, does not widen
// the interval that a later one has shown.
func TestLateAnswerMakesNothingVague(t *testing.T) {
	t.Parallel()
	w := newWorld(4)
	var e offset.Estimator
	sent, answered, applied := w.write(time.Second, time.Second)
	w.wallOff += time.Minute
	e.Answered(w.write(time.Millisecond, time.Millisecond))
	e.Answered(sent, answered, applied)
	is, _ := e.Now(w.read())
	if is.Bound() > 3*time.Millisecond || (is.Mid()-w.truth()).Abs() > is.Bound() {
		t.Errorf("%v, within %v; want %v within 3ms", is.Mid(), is.Bound(), w.truth())
	}
}

// When ZooKeeper's clock is another one, as after the election of another leader, one measurement
// is enough.
func TestAnotherClockOfZooKeeper(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	var e offset.Estimator
	for range 10 {
		e.Answered(w.write(time.Millisecond, time.Millisecond))
	}
	w.serverIs += time.Minute
	e.Answered(w.write(time.Millisecond, time.Millisecond))
	if is, _ := e.Now(w.read()); w.truth() < is.Low || w.truth() > is.High {
		t.Errorf("the offset is %v, want one from %v to %v", w.truth(), is.Low, is.High)
	}
}

// Times that no clock shows do not upset the arithmetic.
func TestAbsurdTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	for _, applied := range []time.Time{{}, time.UnixMilli(-1 << 63), time.UnixMilli(1<<63 - 1)} {
		var e offset.Estimator
		e.Answered(w.read(), w.read(), applied)
		w.pass(time.Hour)
		if is, _ := e.Now(w.read()); is.Low > is.High || !is.Beyond(time.Hour) {
			t.Errorf("%v: from %v to %v, want an offset of more than an hour", applied, is.Low, is.High)
		}
	}
}

// Beyond is certain.
func TestBeyond(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		low, high time.Duration
		want      bool
	}{
		{29 * time.Second, 31 * time.Second, false},
		{30*time.Second + 1, 31 * time.Second, true},
		{-31 * time.Second, -29 * time.Second, false},
		{-time.Hour, -30*time.Second - 1, true},
		{-time.Hour, time.Hour, false},
	} {
		if got := (offset.Interval{Low: tt.low, High: tt.high}).Beyond(30 * time.Second); got != tt.want {
			t.Errorf("from %v to %v is beyond 30s: %v, want %v", tt.low, tt.high, got, tt.want)
		}
	}
}
