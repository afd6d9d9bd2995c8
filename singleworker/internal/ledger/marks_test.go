package ledger_test

import (
	"bytes"
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// runs has a run the first ticks of the job, and be the owner then. Its results may come late.
func (w *world) runs(n int) {
	w.submit(0.5, "j", job.Job{Schedule: "*/10 * * * * ?", Interrupted: job.InterruptedSkip, MaxAttempts: 1})
	w.own(1, "j", "a")
	for k := range n {
		w.runsAt(float64(10 * (k + 1)))
	}
}

func (w *world) runsAt(second float64) {
	w.record(second, "j", w.claimed("j", second, at(second).String()))
	w.end(second+1, "j", history.StateInterrupted)
}

// written writes a history and the tick record, which says that it is at a mark.
func (w *world) written(second float64, mark zkrec.Mark, log zkrec.Log) {
	rec := w.tick["j"]
	rec.History = mark
	w.tick["j"], w.history["j"] = rec, log
	w.write(second, 1, append(w.pages("j"), set(tree.Tick("j"), rec.Encode()))...)
}

// late is the history with another result of the last run.
func (w *world) late() zkrec.Log {
	entries := w.history["j"].History().Entries
	e := entries[len(entries)-1]
	e.State = history.StateOK
	amended, _ := w.history["j"].Amend(e)
	return amended
}

// loses has somebody lose a page of the history, which is repaired with some data, and the owner
// read it.
func (w *world) loses(second float64, index int, data []byte) {
	path := tree.HistoryPage("j", index)
	w.write(second, 1, set(path, []byte("garbage")))
	w.write(second+1, operator, set(path, data))
	log := w.history["j"]
	pages := make([][]byte, zkrec.HistoryPages)
	for i := range pages {
		pages[i] = log.Encode(i)
	}
	pages[index] = data
	log, _ = zkrec.ParseLog(pages)
	w.history["j"] = log.From(w.tick["j"].History)
}

const perPage = zkrec.MinHistory / (zkrec.HistoryPages - 1)

// The writes of a history are numbered, and so are its entries. It tells which entries it has
// forgotten.
func TestMarks(t *testing.T) {
	t.Parallel()
	account := []ledger.Rule{ledger.Account}
	tell(t, []story{
		{"many runs", func(w *world) { w.runs(zkrec.MinHistory + 2*perPage) }, nil},
		{"a late result", func(w *world) { w.runs(2); late := w.late(); w.written(25, late.Mark(), late) }, nil},
		{"a claim after that", func(w *world) {
			w.runs(2)
			late := w.late()
			w.written(25, late.Mark(), late)
			w.runsAt(30)
		}, nil},
		{"a write that skips a number", func(w *world) {
			w.runs(2)
			w.history["j"] = w.late()
			late := w.late()
			w.written(25, late.Mark(), late)
		}, account},
		{"a write of the number before", func(w *world) {
			w.runs(2)
			w.written(25, w.history["j"].Mark(), w.history["j"])
		}, account},
		{"a record that says an earlier write", func(w *world) {
			w.runs(2)
			w.written(25, w.history["j"].Mark(), w.late())
		}, account},
		{"a record that says another entry", func(w *world) {
			w.runs(2)
			late := w.late()
			w.written(25, zkrec.Mark{Rev: late.Mark().Rev, Number: 1}, late)
		}, account},
		{"a record that forgets the history", func(w *world) {
			w.runs(2)
			rec := w.claimed("j", 30, "r3")
			w.write(30, 1, set(tree.Tick("j"), rec.Encode()))
		}, account},
		{"an entry that changes without its write", func(w *world) {
			w.runs(2)
			e := w.late().History().Entries[1]
			e.Rev = 2
			late := w.late().Replace(e)
			w.written(25, late.Mark(), late)
		}, account},
		{"an entry that skips a number", func(w *world) {
			w.runs(2)
			w.record(30, "j", w.claimed("j", 30, "r3"))
			w.history["j"] = w.history["j"].From(zkrec.Mark{Rev: 2, Number: 3})
			w.end(31, "j", history.StateInterrupted)
		}, account},
		{"a write that adds nothing, and says so", func(w *world) {
			w.runs(2)
			late := w.late().From(zkrec.Mark{Rev: 3, Number: 3})
			w.written(25, late.Mark(), late)
		}, account},
		{"entries that are forgotten by nobody", func(w *world) {
			w.runs(perPage + 1)
			w.history["j"] = w.late()
			rec := w.tick["j"]
			rec.History = w.history["j"].Mark()
			w.write(95, 1, append(w.pages("j"), set(tree.Tick("j"), rec.Encode()), set(tree.HistoryPage("j", 0), nil))...)
		}, account},
		{"a record that was emptied beside a history that nobody can read", func(w *world) {
			w.runs(2)
			w.write(25, 1, set(tree.History("j"), []byte("garbage")))
			w.write(26, 1, set(tree.Tick("j"), []byte("garbage")))
			w.write(27, operator, set(tree.Tick("j"), zkrec.Tick{Watermark: ms(27)}.Encode()))
			w.tick["j"] = zkrec.Tick{Watermark: ms(27)}
			w.record(30, "j", w.claimed("j", 30, "r3"))
		}, nil},
		{"what was lost, and is forgotten by nobody", func(w *world) {
			w.runs(2)
			w.write(25, 1, set(tree.History("j"), []byte("garbage")))
			w.write(26, operator, set(tree.History("j"), nil))
			w.history["j"] = zkrec.Log{}.From(zkrec.Mark{Rev: 2, Number: 2}).Add(zkrec.MinHistory, ms(20), missed(30, 30, 1))
			page := bytes.Replace(w.history["j"].Encode(0), []byte(`"dropped":2`), []byte(`"dropped":1`), 1)
			rec := w.tick["j"]
			rec.Watermark, rec.History = ms(30), w.history["j"].Mark()
			w.write(35, 1, set(tree.History("j"), page), set(tree.Tick("j"), rec.Encode()))
		}, account},
	})
}

// A history of which a page was lost, and repaired, continues, and so does the judgment.
func TestPagesThatAreRepaired(t *testing.T) {
	t.Parallel()
	marked := func(w *world) []byte { return zkrec.Emptied(w.tick["j"].History) }
	empty := func(*world) []byte { return nil }
	for what, repaired := range map[string]func(w *world) []byte{"as one that is forgotten": marked, "as an empty one": empty} {
		for _, lost := range []int{0, 1, 2} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, true)
				w.runs(2*perPage + 1)
				w.loses(95, lost, repaired(w))
				for k := range 2 * zkrec.MinHistory {
					w.runsAt(float64(100 + 10*k))
				}
				late := w.late()
				w.written(1000, late.Mark(), late)
				w.wantRules(t, nil)
			})
		}
	}
	tell(t, []story{{"a late result comes first", func(w *world) {
		w.runs(2*perPage + 1)
		w.loses(95, 2, marked(w))
		late := w.late()
		w.written(98, late.Mark(), late)
	}, nil}})
}
