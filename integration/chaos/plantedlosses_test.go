package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/swtest/txns"
)

// Planted faults are found where servers lose their data, and in alarms.
func TestPlantedLossesAndAlarms(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]plant{
		"a restore that left no trace": {func(f *forger) { f.replaced(restored) }, "replaced 1 times, the logs say 0"},
		"a tick runs again after a restore": {func(f *forger) {
			f.replaced(restored)
			f.restores(f.twice(), 0)
		}, ""},
		"a run begins long after its claim was lost": {func(f *forger) {
			f.replaced(restored)
			f.restores(f.Claims[5], 0)
			f.run(6).Mono, f.run(6).End, f.b.Life.To = at(9.6), at(9.8), at(20)
		}, "begins run b-6-1 3.6s after its claim was lost"},
		"and its process stood still": {func(f *forger) {
			f.replaced(restored)
			f.restores(f.Claims[5], 0)
			f.run(6).Mono, f.run(6).End, f.b.Life.To, f.b.Pauses = at(9.6), at(9.8), at(20), []span{{at(8), at(9.5)}}
		}, ""},
		"a run continues long after its ownership was lost": {func(f *forger) {
			f.replaced(emptied)
			f.restores(f.Claims[5], 0)
			f.run(6).End, f.b.Life.To = at(9.6), at(20)
		}, "ends run b-6-1 3.6s after its ownership was lost"},
		"and it still has that": {func(f *forger) {
			f.replaced(emptied)
			f.restores(f.Claims[5], 20)
			f.run(6).End, f.b.Life.To = at(9.6), at(20)
		}, ""},
		"nothing is claimed after a restore": {func(f *forger) {
			f.replaced(emptied)
			f.restores(f.Claims[5], 0)
			f.Ended = at(30)
		}, "nothing is claimed for 23.5s after the servers were emptied"},
		"and another fault comes": {func(f *forger) {
			f.replaced(emptied)
			f.restores(f.Claims[5], 0)
			f.Ended = at(30)
			f.Deeds = append(f.Deeds, &deed{fault: fault{Kind: ensemble}, Span: span{at(8), at(30)}})
		}, ""},
		"a tick is missing in what was lost later": {func(f *forger) {
			f.rename()
			whole := *f.Log
			whole.Claims = slices.Clone(f.Claims)
			f.Claims = append(f.Claims[:1:1], f.Claims[2:]...)
			whole.Times = []*txns.Log{f.Log, &whole}
			f.Log = &whole
		}, "nothing is accounted for"},
		"the only server loses transactions": {func(f *forger) {
			f.Servers, f.Losses = 1, []txns.Loss{{First: 1, Last: 4, Txns: 4, Shown: 5, Time: time.Unix(3, 0)}}
		}, "loss: : 4 transactions between zxid 0x1 and 0x4 are lost"},
		"an ensemble does": {func(f *forger) {
			f.Servers, f.Losses = 3, []txns.Loss{{First: 1, Last: 4, Txns: 4, Shown: 5, Time: time.Unix(3, 0)}}
		}, ""},
		"a true alarm":  {func(f *forger) { f.alarm(67.5, 7) }, ""},
		"a false alarm": {func(f *forger) { f.alarm(65.5, 7) }, "tells of 00:00:07.000 1.5s before it is overdue"},
		"its clock leapt": {func(f *forger) {
			f.alarm(65.5, 7)
			f.leap(1)
		}, "tells of 00:00:07.000 1.5s before it is overdue"},
		"all clocks leapt": {func(f *forger) {
			f.alarm(30.5, 7)
			f.Deeds = []*deed{{fault: fault{Kind: clocksLeap, Amount: 40 * time.Second}, Span: span{at(20), at(31)}}}
		}, ""},
		"all clocks leapt, by less than the limit": {func(f *forger) {
			f.alarm(50.5, 7)
			f.Deeds = []*deed{{fault: fault{Kind: clocksLeap, Amount: 20 * time.Second}, Span: span{at(20), at(51)}}}
		}, "before it is overdue"},
		"an alarm for what ran": {func(f *forger) { f.alarm(67.5, 6) }, "1m1.49s after it was claimed"},
		"an alarm twice":        {func(f *forger) { f.alarm(67.5, 7); f.alarm(70, 7) }, "tells of 00:00:07.000 again, 2.5s after it was told"},
		"an alarm that was lost": {func(f *forger) {
			f.alarm(67.5, 7)
			f.alarm(70, 7)
			f.replaced(restored)
			f.Deeds[0].Span, f.Restores = span{at(68), at(69)}, make([]txns.Restore, 1)
		}, ""},
	} {
		plant.check(t, name)
	}
}

// replaced is servers that get other data as the sixth tick runs.
func (f *forger) replaced(by kind) {
	f.Deeds = append(f.Deeds, &deed{fault: fault{Kind: by}, Span: span{at(6), at(6.5)}})
}

// restores loses a claim with the servers' data; they still have the transactions up to one.
func (f *forger) restores(c *txns.Claim, through int64) {
	c.Lost, c.GoneAt = true, 1<<48
	f.Restores = []txns.Restore{{Through: through}}
	for k := len(f.Claims) - 1; f.Claims[k] != c; k-- {
		f.Claims[k].Zxid |= 1 << 48
	}
}

// alarm notes that process b tells of a tick, at a time.
func (f *forger) alarm(second float64, tick int64) {
	f.b.Life.To = at(100)
	f.Lines[f.b] = append(f.Lines[f.b], Line{Event: Missed, Job: forgedSlot, Tick: tick * 1000, Mono: at(second)})
}
