package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/swtest/txns"
)

// A forger makes evidence of a job that ticks each second, without a fault: process a runs the
// ticks 1 to 3, and process b, after it was killed, 4 to 6.
type forger struct {
	*evidence

	a, b *process
}

const forgedSlot = "second-20ms-forged"

func forge() *forger {
	f := &forger{evidence: &evidence{
		Log: &txns.Log{
			Skipped: make(map[txns.Life]map[int64]history.Reason), Owners: make(map[string][]txns.Ownership),
			Last: map[txns.Life]bool{{Slot: forgedSlot, Born: 1}: true},
		},
		Lines: make(map[*process][]Line),
	}}
	f.a = &process{ID: "a", Member: 0, Life: span{0, at(3.8)}, Killed: true, KillBy: kill}
	f.b = &process{ID: "b", Member: 1, Life: span{0, at(9)}, Asked: true}
	f.Processes = []*process{f.a, f.b}
	for tick := 1; tick <= 6; tick++ {
		by, token := f.a, int64(10)
		if tick > 3 {
			by, token = f.b, 20
		}
		f.ran(by, tick, 1, token)
	}
	return f
}

func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// ran adds a claim and its run, which takes half a second.
func (f *forger) ran(by *process, tick, attempt int, token int64) *txns.Claim {
	line := Line{
		Event: Start, Job: forgedSlot, Shards: 1, Tick: int64(tick) * 1000, Attempt: attempt, Token: token,
		Run: fmt.Sprintf("%s-%d-%d", by.ID, tick, attempt), Mono: at(float64(tick) + 0.02),
	}
	line.Wall = line.Mono.Milliseconds()
	c := &txns.Claim{
		Life: txns.Life{Slot: forgedSlot, Born: 1}, Zxid: int64(100 + len(f.Claims)), At: time.Unix(int64(tick), 10_000_000), Tick: line.Tick,
		Attempt: attempt, Token: token, Run: line.Run, SID: by.ID, State: "ok",
	}
	r := &handlerRun{Line: line, By: by, End: line.Mono + at(0.5)}
	f.Claims, f.Runs = append(f.Claims, c), append(f.Runs, r)
	return c
}

func (f *forger) run(tick int) *handlerRun { return f.Runs[tick-1] }

// Planted faults are found, and excused ones are not.
func TestPlantedViolations(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]plant{
		"nothing": {func(*forger) {}, ""},
		"a process ends by itself": {func(f *forger) {
			f.b.Asked, f.b.err = false, errors.New("exit status 2")
		}, "process: : b ended by itself: exit status 2"},
		"a broken rule of the log": {func(f *forger) {
			f.Violations = []txns.Violation{{Rule: "owner", Slot: "x", Text: "stolen"}}
		}, "owner: x: stolen"},
		"a run without a claim": {func(f *forger) {
			f.run(6).Run, f.Claims[5].State = "other", "lost"
		}, "never claimed"},
		"a run begins twice": {func(f *forger) {
			again := *f.run(6)
			again.Mono, again.Attempt = at(7), 2
			f.Runs = append(f.Runs, &again)
			f.Claims[5].Attempt = 2
			f.run(6).Attempt = 2
		}, "began twice"},
		"a run of another's claim":      {func(f *forger) { f.run(5).By = f.a; f.a.Life.To = f.b.Life.To; f.a.Killed = true }, "claimed was"},
		"a run with another token":      {func(f *forger) { f.run(6).Token++ }, "claimed was"},
		"a run of another tick":         {func(f *forger) { f.Claims[5].Tick += 500; f.Claims[5].Tick -= 1000; f.run(6).Tick = 6000 }, "claimed was"},
		"a run before its claim":        {func(f *forger) { f.Claims[5].At = time.Unix(6, 30_000_000) }, "before it is claimed"},
		"a claim without an outcome":    {func(f *forger) { f.Claims[5].State = "" }, "nothing says what became of it"},
		"of a job that is gone":         {func(f *forger) { f.Claims[5].State = ""; f.Last = nil }, ""},
		"a result without a run":        {func(f *forger) { f.Runs = f.Runs[:5] }, "did not run it"},
		"a claim that was interrupted":  {func(f *forger) { f.Runs = f.Runs[:5]; f.Claims[5].State = "interrupted" }, ""},
		"a tick runs twice":             {func(f *forger) { f.twice() }, "ran twice"},
		"too early":                     {func(f *forger) { f.early() }, "too early"},
		"early by its own clock":        {func(f *forger) { f.early(); f.run(6).Wall = 6000 }, ""},
		"early after its clock was set": {func(f *forger) { f.early(); f.leap(1) }, ""},
		"early and another's clock was": {func(f *forger) { f.early(); f.leap(0) }, "too early"},
		"early again, elsewhere":        {func(f *forger) { f.early(); f.again(0) }, ""},
		"early again, on time at first": {func(f *forger) { f.early(); f.again(2) }, "too early"},
		"an overlap":                    {func(f *forger) { f.run(5).End = at(6.3) }, "overlap"},
		"an overlap in a paused process": {func(f *forger) {
			f.overlapOf(f.a)
			f.a.Pauses = []span{{at(3.1), at(4.5)}}
		}, ""},
		"an overlap in a stalled process": {func(f *forger) {
			f.overlapOf(f.a)
			f.Lines[f.a] = []Line{{Event: Stalled, Mono: at(4.2), Gap: suspension}}
		}, ""},
		"an overlap with a short stall": {func(f *forger) {
			f.overlapOf(f.a)
			f.Lines[f.a] = []Line{{Event: Stalled, Mono: at(4.2), Gap: suspension - 1}}
		}, "overlap"},
		"an overlap, and another paused":             {func(f *forger) { f.overlapOf(f.a); f.b.Pauses = []span{{at(3.1), at(3.9)}} }, "overlap"},
		"an overlap after an early pause":            {func(f *forger) { f.overlapOf(f.a); f.a.Pauses = []span{{-at(3), -at(1)}} }, "overlap"},
		"an overlap without a fence":                 {func(f *forger) { f.overlapOf(f.a); f.a.Pauses = []span{{at(3.1), at(4.5)}}; f.token(4, 10) }, "no greater token"},
		"a tick runs twice after its claim was lost": {func(f *forger) { f.twice().Lost, f.Claims[5].GoneAt = true, 106 }, ""},
		"a tick runs twice, another was lost":        {func(f *forger) { f.twice(); f.Claims[4].GoneAt = 106 }, "ran twice"},
		"a tick runs twice before that was lost":     {func(f *forger) { f.twice().Lost, f.Claims[5].GoneAt = true, 107 }, "ran twice"},
		"a token goes back after a loss":             {func(f *forger) { f.token(6, 15); f.Claims[4].GoneAt = 105 }, ""},
		"an overlap after a loss without a trace": {func(f *forger) {
			f.run(5).End, f.Losses = at(6.3), []txns.Loss{{First: 1, Last: 104, Txns: 9, Shown: 105}}
		}, "overlap"},
		"a lost claim without an outcome":     {func(f *forger) { f.Claims[5].State, f.Claims[5].Lost = "", true }, ""},
		"a lost claim that nobody made again": {func(f *forger) { f.Claims[1].Lost = true; f.rename() }, "nothing is accounted for"},
		"a token goes back":                   {func(f *forger) { f.token(6, 15) }, "token 15"},
		"a claim that did not begin, again": {func(f *forger) {
			f.twice().NotBegun, f.Claims[5].State = true, "interrupted"
			f.Runs = slices.Delete(f.Runs, 5, 6)
		}, ""},
		"a claim that did not begin, as is said after the second attempt": {func(f *forger) {
			f.rename()
			first := *f.Claims[2]
			first.Run, first.State, first.NotBegun = "first", "interrupted", true
			f.Claims[2].Attempt, f.run(3).Attempt = 2, 2
			f.Claims = slices.Insert(f.Claims, 2, &first)
		}, ""},
		"a claim that began, again": {func(f *forger) { f.twice().State = "interrupted"; f.Runs = slices.Delete(f.Runs, 5, 6) }, "accounted for 2 times"},
		"a run that did not begin":  {func(f *forger) { f.Claims[4].NotBegun = true }, "did not begin, and it ran"},
		"a tick is missing": {func(f *forger) {
			f.Claims, f.Runs = append(f.Claims[:1:1], f.Claims[2:]...), append(f.Runs[:1:1], f.Runs[2:]...)
			f.rename()
		}, "nothing is accounted for"},
		"a tick is recorded as not run": {func(f *forger) {
			f.Claims, f.Runs = append(f.Claims[:1:1], f.Claims[2:]...), append(f.Runs[:1:1], f.Runs[2:]...)
			f.skip(2000)
			f.rename()
		}, ""},
		"a tick is claimed and skipped":    {func(f *forger) { f.skip(2000) }, "accounted for 2 times"},
		"a run of a process that was dead": {func(f *forger) { f.run(3).Mono = at(3.9); f.run(3).End = 0 }, "after it has ended"},
	} {
		plant.check(t, name)
	}
}

// A plant is a change of the forged evidence.
type plant struct {
	plant func(*forger)
	want  string // in what is found; nothing is, if it is empty
}

func (p plant) check(t *testing.T, name string) {
	t.Helper()
	f := forge()
	p.plant(f)
	var found []string
	for _, v := range f.check().found {
		found = append(found, v.String())
	}
	is := func(v string) bool { return strings.Contains(v, p.want) }
	if p.want == "" && len(found) > 0 || p.want != "" && !slices.ContainsFunc(found, is) {
		t.Errorf("%s: found %q, want %q", name, found, p.want)
	}
}

// twice makes the sixth tick run twice, by a second claim, and returns the first one.
func (f *forger) twice() *txns.Claim {
	c := f.ran(f.b, 6, 1, 20)
	c.Tick, f.Runs[6].Mono, f.Runs[6].Run, c.Run = 6000, at(7), "x", "x"
	return f.Claims[5]
}

// early makes the sixth tick run before it is due.
func (f *forger) early() {
	r := f.run(6)
	r.Mono, r.End, r.Wall = at(5.7), at(5.9), 5700
	f.Claims[5].At = time.Unix(5, 690_000_000)
}

// leap is a clock that was ahead shortly before.
func (f *forger) leap(member int) {
	f.Deeds = append(f.Deeds, &deed{fault: fault{Kind: clockLeap, Target: member}, Span: span{at(1), at(2)}})
}

// again makes the sixth tick's run a second attempt, after one by process a whose clock was ahead,
// or another's.
func (f *forger) again(member int) {
	f.leap(member)
	first := *f.Claims[5]
	first.Run, first.SID, first.At, first.State = "first", "a", time.Unix(3, 500_000_000), "interrupted"
	f.Claims[5].Attempt, f.run(6).Attempt = 2, 2
	f.Claims = append(f.Claims, &first)
}

// overlapOf makes the third tick run until after the fourth has begun elsewhere.
func (f *forger) overlapOf(p *process) {
	f.run(3).End = at(4.3)
	p.Life.To = at(5)
}

func (f *forger) token(tick int, token int64) {
	f.Claims[tick-1].Token, f.run(tick).Token = token, token
}

func (f *forger) skip(tick int64) {
	f.Skipped[txns.Life{Slot: forgedSlot, Born: 1}] = map[int64]history.Reason{tick: history.ReasonOverlap}
}

// rename gives the job the name of one with a schedule that is known not to change.
func (f *forger) rename() {
	const name = "second-900ms"
	for k := range f.Claims {
		f.Claims[k].Slot, f.Runs[k].Job = name, name
	}
	skipped := f.Skipped[txns.Life{Slot: forgedSlot, Born: 1}]
	f.Skipped = map[txns.Life]map[int64]history.Reason{{Slot: name, Born: 1}: skipped}
	f.Last = map[txns.Life]bool{{Slot: name, Born: 1}: true}
}
