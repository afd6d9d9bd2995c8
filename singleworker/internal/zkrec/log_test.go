package zkrec_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// A log is, byte for byte, what its history would be, however it came about.
func TestLogIsTheHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var want zkrec.History
		var got zkrec.Log
		var through int64
		for step := range 60 {
			before := through
			entries := randomEntries(random, &through)
			if random.IntN(5) == 0 && len(want.Entries) > 0 {
				late := want.Entries[random.IntN(len(want.Entries))]
				late.State, late.Error = zkrec.RunOK, "late \xff"
				var wantOK, gotOK bool
				want, wantOK = want.Amend(late)
				if got, gotOK = got.Amend(late); gotOK != wantOK {
					t.Fatalf("seed %d, step %d: amended: %v, want %v", seed, step, gotOK, wantOK)
				}
			} else {
				want, got = want.Add(before, entries...), got.Add(zkrec.MaxHistory, before, entries...)
			}
			if g, w := string(got.Encode()), string(want.Encode()); len(want.Entries) > 0 && g != w {
				t.Fatalf("seed %d, step %d: encoded\n%s\nwant\n%s", seed, step, g, w)
			}
			if random.IntN(4) == 0 { // another owner reads it
				var wantErr, gotErr error
				want, wantErr = zkrec.ParseHistory(want.Encode())
				if got, gotErr = zkrec.ParseLog(want.Encode()); wantErr != nil || gotErr != nil {
					t.Fatal(wantErr, gotErr)
				}
			}
			if h := got.History(); !reflect.DeepEqual(h.Entries, want.Entries) {
				t.Fatalf("seed %d, step %d: decoded %+v, want %+v", seed, step, h.Entries, want.Entries)
			}
		}
	}
}

// randomEntries are a run, or some rows, with long errors once in a while.
func randomEntries(random *rand.Rand, through *int64) (entries []zkrec.Entry) {
	if random.IntN(2) == 0 {
		run := zkrec.Run{RunID: fmt.Sprint("r", random.IntN(40)), State: zkrec.RunFailed, Tick: *through}
		run.Error = strings.Repeat("<é>", max(0, random.IntN(12)-9)*500)
		return []zkrec.Entry{{Run: run}}
	}
	for range 1 + random.IntN(3) {
		first := *through + 10
		entries = append(entries, row(first, first+10, 1+random.IntN(2)))
		*through = entries[len(entries)-1].Last()
	}
	return entries
}

func TestLogRefusesWhatIsNoHistory(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"{garbage", `{"schema":99}`, `{"schema":1,"entries":[1]}`} {
		if l, err := zkrec.ParseLog([]byte(data)); err == nil {
			t.Errorf("%s is read as %+v", data, l)
		}
	}
	for _, data := range []string{"", " ", `{"schema":1,"entries":null}`, `{"schema":1,"entries":[]}`} {
		if l, err := zkrec.ParseLog([]byte(data)); err != nil || len(l.History().Entries) > 0 {
			t.Errorf("%q is read as %+v, %v", data, l, err)
		}
	}
}

// A log drops entries when it becomes too long, and none before.
func TestLongLogIsTrimmed(t *testing.T) {
	t.Parallel()
	const entries = 17
	var l zkrec.Log
	for i := range entries - 1 {
		l = l.Add(zkrec.MaxHistory, 0, zkrec.Entry{Run: zkrec.Run{RunID: fmt.Sprint("r", i), Error: strings.Repeat("x", 3800)}})
	}
	last := zkrec.Entry{Run: zkrec.Run{RunID: "last"}}
	with := func(long int) []byte {
		last.Error = strings.Repeat("x", long)
		return l.Add(zkrec.MaxHistory, 0, last).Encode()
	}
	one := 1 + zkrec.MaxRecordBytes - len(with(1)) // fills the record
	for long, want := range map[int]int{one - 1: entries, one: entries, one + 1: entries - 1} {
		data := with(long)
		h, err := zkrec.ParseHistory(data)
		if err != nil || len(h.Entries) != want || len(data) > zkrec.MaxRecordBytes {
			t.Errorf("%d bytes: %d entries in %d, %v; want %d", long, len(h.Entries), len(data), err, want)
		}
	}
}

func TestAmendedLogLeavesTheOther(t *testing.T) {
	t.Parallel()
	var l zkrec.Log
	l = l.Add(zkrec.MaxHistory, 0, zkrec.Entry{Run: zkrec.Run{RunID: "r1", State: zkrec.RunInterrupted}})
	amended, ok := l.Amend(zkrec.Entry{Run: zkrec.Run{RunID: "r1", State: zkrec.RunOK}})
	if a, b := amended.History().Entries[0].State, l.History().Entries[0].State; !ok || a != zkrec.RunOK || b != zkrec.RunInterrupted {
		t.Errorf("amended: %v, to %q; before it is %q", ok, a, b)
	}
}
