package zkrec_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// row is an entry for ticks that were not run: one, or those from first to last.
func row(first, last int64, count int) zkrec.Entry {
	e := zkrec.Entry{Run: zkrec.Run{
		Tick: first, SID: "a", Token: 7, State: history.StateMissed, Ended: last + 1,
	}, Reason: history.ReasonStalled}
	if count > 1 {
		e.To, e.Count = last, count
	}
	return e
}

func ran(id string, state history.State) zkrec.Entry {
	return zkrec.Entry{Run: zkrec.Run{RunID: id, State: state}}
}

// A reader who has read a history up to a mark learns of added entries, rows that became longer,
// and results that came late. It is certain whether anything was forgotten in between.
func TestSince(t *testing.T) {
	t.Parallel()
	const keep = zkrec.HistoryPages - 1 // one on a page
	var l zkrec.Log
	marks := []zkrec.Mark{{}}
	write := func(next zkrec.Log) {
		l = next
		marks = append(marks, l.Mark())
	}
	write(l.Add(keep, 0, ran("r1", history.StateInterrupted)))
	write(l.Add(keep, 10, row(20, 20, 1)))
	write(l.Add(keep, 20, row(30, 30, 1))) // joins it
	amended, ok := l.Amend(ran("r1", history.StateOK))
	write(amended)
	write(l.Add(keep, 30, ran("r2", history.StateOK), ran("r3", history.StateOK), ran("r4", history.StateOK), ran("r5", history.StateOK)))
	write(l.Add(keep, 30, ran("r6", history.StateOK))) // r1 is forgotten, which was last changed by the fourth write
	h := l.History()
	for since, want := range []struct {
		news  string
		whole bool
	}{
		{"2 3 4 5 6 7", false}, {"2 3 4 5 6 7", false}, {"2 3 4 5 6 7", false}, {"3 4 5 6 7", false}, {"3 4 5 6 7", true}, {"7", true}, {"", true},
	} {
		news, whole := h.Since(marks[since])
		var got []string
		for _, e := range news {
			got = append(got, strconv.FormatInt(e.Number, 10))
		}
		if strings.Join(got, " ") != want.news || whole != want.whole {
			t.Errorf("after write %d: entries %s, whole %v; want %s, %v", since, got, whole, want.news, want.whole)
		}
	}
	if want := (zkrec.Mark{Rev: 6, Number: 7}); !ok || h.Mark != want || h.Dropped != 4 {
		t.Errorf("at %+v, dropped %d, amended %v; want %+v, 4", h.Mark, h.Dropped, ok, want)
	}
	for _, ahead := range []zkrec.Mark{{Rev: 7, Number: 7}, {Rev: 6, Number: 8}} {
		if news, whole := h.Since(ahead); len(news) > 0 || whole || !h.Behind(ahead) {
			t.Errorf("since %+v, which the history has forgotten: %+v, whole %v", ahead, news, whole)
		}
	}
}

// Numbers continue after a history was emptied, and its former entries are said to be forgotten.
func TestNumbersGoOnAfterARepair(t *testing.T) {
	t.Parallel()
	at := zkrec.Mark{Rev: 40, Number: 33}
	l := zkrec.Log{}.From(at).Add(zkrec.MinHistory, 0, ran("next", history.StateOK))
	h, err := zkrec.ParseHistory([][]byte{l.Encode(0)})
	if want := (zkrec.Mark{Rev: 41, Number: 34}); err != nil || h.Mark != want || h.Dropped != 40 || h.Entries[0].Number != 34 || h.Entries[0].Rev != 41 {
		t.Errorf("the history continues with %+v, %v", h, err)
	}
	h, err = zkrec.ParseHistory([][]byte{nil, zkrec.Emptied(at)})
	if err != nil || h.Rev != at.Rev || h.Dropped != at.Rev || len(h.Entries) > 0 {
		t.Errorf("what was emptied is read as %+v, %v", h, err)
	}
	if same := l.From(at); !reflect.DeepEqual(same, l) {
		t.Errorf("a log that is ahead of the mark becomes %+v", same)
	}
}

// Numbers that nobody has written are refused: new entries could not be told from known ones.
func TestNumbersThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"schema":1,"rev":1,"dropped":2,"first":1,"entries":[]}`,
		`{"schema":1,"rev":1,"dropped":-1,"first":1,"entries":[]}`,
		`{"schema":1,"rev":1,"dropped":0,"first":0,"entries":[{"rev":1}]}`,
		`{"schema":1,"rev":1,"dropped":0,"first":-1,"entries":[{"rev":1}]}`,
		`{"schema":1,"rev":1,"dropped":0,"first":2,"entries":[{}]}`,
		`{"schema":1,"rev":1,"dropped":0,"first":1,"entries":[{"rev":2}]}`,
		`{"schema":1,"rev":1,"dropped":0,"first":1,"ahead":-1,"entries":[{}]}`,
		`{"schema":1,"rev":1,"dropped":0,"first":1,"entries":[{"r":"!"}]}`,
		`{"schema":1,"rev":1,"dropped":0,"first":1,"entries":[{"r":"AAAA"}]}`,
	} {
		if h, err := zkrec.ParseHistory([][]byte{[]byte(data)}); err == nil {
			t.Errorf("%s is read as %+v", data, h)
		}
	}
	first, second := []byte(`{"schema":1,"rev":1,"dropped":0,"first":1,"entries":[{}]}`), []byte(`{"schema":1,"rev":2,"dropped":0,"first":2,"entries":[{}]}`)
	if h, err := zkrec.ParseHistory([][]byte{second, nil, first}); err != nil || len(h.Entries) != 2 || h.Entries[0].Number != 1 {
		t.Errorf("pages are read as %+v, %v", h, err)
	}
	if h, err := zkrec.ParseHistory([][]byte{first, first}); err == nil {
		t.Errorf("pages with the same entries are read as %+v", h)
	}
}

func TestMarkIsReadBack(t *testing.T) {
	t.Parallel()
	for want, mark := range map[string]zkrec.Mark{"7": {Rev: 7, Number: 7}, "[9,7]": {Rev: 9, Number: 7}, "0": {}} {
		data, err := json.Marshal(mark)
		var got zkrec.Mark
		if err = errors.Join(err, json.Unmarshal(data, &got)); err != nil || string(data) != want || got != mark {
			t.Errorf("%+v is written as %s and read as %+v, %v", mark, data, got, err)
		}
	}
	for _, data := range []string{`"7"`, `{}`, `[true]`, `7.5`, `[7]`, `[9,7,5]`} {
		if err := json.Unmarshal([]byte(data), new(zkrec.Mark)); err == nil {
			t.Errorf("%s is read as a mark", data)
		}
	}
}
