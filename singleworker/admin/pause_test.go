package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		time.Sleep(30 * time.Minute)
		paused := time.Now()

		result, err := w.c.Pause(w.Context(), "job", PauseOptions{By: "alice@host", Reason: "migration"})
		if err != nil || result.Outcome != OutcomePaused || !w.get("job").NextRun.IsZero() || *result.Pause != *w.get("job").Paused {
			t.Errorf("pause: %+v, %v", result, err)
		}
		want := zkrec.Pause{By: "alice@host", Reason: "migration"} // since it was written
		if spec := w.spec("job"); *spec.Switch.Paused != want {
			t.Errorf("recorded as %s, want the pause %+v", spec.Switch.Encode(), want)
		}
		again, err := w.c.Pause(w.Context(), "job", PauseOptions{By: "alice@host", Reason: "migration", Missed: "skip"})
		if err != nil || again.Outcome != OutcomeUnchanged || again.Pause == nil {
			t.Errorf("the same again: %s, %v; want unchanged", again.Outcome, err)
		}
		time.Sleep(time.Hour)
		until := time.Now().Add(24 * time.Hour)
		longer, err := w.c.Pause(w.Context(), "job", PauseOptions{By: "bob", Until: until, Missed: "once"})
		if got := longer.Pause; err != nil || longer.Outcome != OutcomePaused || !got.Since.Equal(paused) || !got.Until.Equal(until) ||
			got.By != "bob" || got.Reason != "" || got.Missed != "once" || longer.Missed != 1 {
			t.Errorf("until tomorrow: %+v, %v", longer, err)
		}
		if next := w.get("job").NextRun; !next.Equal(noon.Add(26 * time.Hour)) { // 13:30 tomorrow, so 14:00
			t.Errorf("next run at %v, want the first after the pause", next)
		}
		time.Sleep(3 * time.Hour)
		resumed, err := w.c.Resume(w.Context(), "job", ResumeOptions{Missed: "all"})
		if err != nil || resumed.Outcome != OutcomeResumed || w.get("job").Paused != nil || resumed.Missed != 4 {
			t.Errorf("resume: %+v, %v", resumed, err)
		}
		want = zkrec.Pause{Since: paused.UnixMilli(), Over: true, By: "bob", Missed: "all"}
		if spec := w.spec("job"); *spec.Switch.Paused != want {
			t.Errorf("recorded as %s, want the pause %+v", spec.Switch.Encode(), want)
		}
		time.Sleep(time.Second)
		if result, err := w.c.Resume(w.Context(), "job", ResumeOptions{}); err != nil || result.Outcome != OutcomeUnchanged || result.Pause != nil {
			t.Errorf("resumed twice: %+v, %v; want unchanged", result, err)
		}
	})
}

// A job that is submitted paused is so from its first record on, whether it is created or replaced.
func TestSubmitPaused(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		daily := job.Job{Name: "job", Schedule: "@daily"}
		paused := SubmitOptions{Pause: &PauseOptions{By: "alice@host"}}
		done, err := w.c.Submit(w.Context(), daily, paused)
		if err != nil || done.Outcome != OutcomeCreated || !done.NextRun.IsZero() {
			t.Errorf("created: %+v, %v", done, err)
		}
		w.wantSwitch(`{"schema":1,"paused":{"by":"alice@host"}}`)
		if got := w.get("job"); got.Version != 0 || got.Paused == nil || !got.Paused.Since.Equal(noon) {
			t.Errorf("version %d, pause %+v; want it paused in the transaction that created it", got.Version, got.Paused)
		}
		if done, err = w.c.Submit(w.Context(), daily, paused); err != nil || done.Outcome != OutcomeUnchanged {
			t.Errorf("again: %s, %v", done.Outcome, err)
		}
		if _, err := w.c.Resume(w.Context(), "job", ResumeOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := w.c.Submit(w.Context(), daily, paused); !errors.Is(err, ErrExists) {
			t.Errorf("of a job that is not paused: %v, want it to differ", err)
		}
		paused.Replace = true
		done, err = w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@hourly"}, paused)
		if got := w.get("job"); err != nil || done.Outcome != OutcomeReplaced || got.Version != done.Version || got.Paused == nil || !got.NextRun.IsZero() {
			t.Errorf("replaced: %+v, %v; the job is %+v", done, err, got)
		}
		paused.Pause = &PauseOptions{For: -1}
		if _, err := w.c.Submit(w.Context(), daily, paused); !errors.As(err, new(*invalid.FieldError)) {
			t.Errorf("for less than nothing: %v", err)
		}
	})
}

// The owner may account for the ticks of a pause before Resume counts them.
func TestResumeDoesNotCountAccountedTicks(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		if _, err := w.c.Pause(w.Context(), "job", PauseOptions{}); err != nil {
			t.Fatal(err)
		}
		// The owner had claimed the first tick when it learned of the pause.
		w.put(w.c.tree.Tick("job"), zkrec.Tick{Watermark: noon.Add(time.Hour).UnixMilli()}.Encode())
		time.Sleep(3*time.Hour + time.Minute)
		w.every(100*time.Millisecond, func() bool {
			if !w.spec("job").Switch.Paused.Over {
				return false
			}
			w.put(w.c.tree.Tick("job"), zkrec.Tick{Watermark: noon.Add(3 * time.Hour).UnixMilli()}.Encode())
			return true
		})
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.DelayReply(time.Second) })
		result, err := w.c.Resume(w.Context(), "job", ResumeOptions{Missed: "once"})
		if err != nil || result.Missed != 2 {
			t.Errorf("resume: %d ticks, %v; want 2", result.Missed, err)
		}
	})
}

// A pause ends by itself, and the next one is a new one.
func TestPauseEnds(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		if _, err := w.c.Pause(w.Context(), "job", PauseOptions{Until: noon.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if job := w.get("job"); job.Paused != nil || !job.NextRun.Equal(noon.Add(2*time.Hour)) {
			t.Errorf("when it is over: %+v", job)
		}
		result, err := w.c.Pause(w.Context(), "job", PauseOptions{})
		if err != nil || !result.Pause.Since.Equal(noon.Add(time.Hour)) {
			t.Errorf("the next: %+v, %v; want it since now", result.Pause, err)
		}
	})
}

// The record has no time by the clock of the operator who pauses or resumes: it may be wrong.
func TestTimesOfAPauseAreTheServers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		begin := time.Now()
		if result, err := w.c.Pause(w.Context(), "job", PauseOptions{For: time.Hour}); err != nil || !result.Pause.Until.Equal(begin.Add(time.Hour)) {
			t.Errorf("pause: %+v, %v", result.Pause, err)
		}
		w.wantSwitch(`{"schema":1,"paused":{"for":"1h0m0s"}}`)
		time.Sleep(time.Minute)
		if result, err := w.c.Resume(w.Context(), "job", ResumeOptions{}); err != nil || !result.Pause.Until.Equal(begin.Add(time.Minute)) {
			t.Errorf("resume: %+v, %v", result.Pause, err)
		}
		w.wantSwitch(`{"schema":1,"paused":{"since":946728000000,"over":true}}`)
		w.wantRecord("@hourly")
		if _, err := w.c.Edit(w.Context(), "job", func(j *job.Job) error { j.Overlap = job.OverlapQueue; return nil }, EditOptions{}); err != nil {
			t.Error(err)
		}
		w.wantRecord(`{"schema":1,"schedule":"@hourly","overlap":"queue","since":946728000000,"version":2}`)
		w.wantSwitch(`{"schema":1,"paused":{"since":946728000000,"over":true}}`)
	})
}

// A job that was made manually may lack the node of its switch, which a pause makes.
func TestPauseOfAJobMadeManually(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Root()))
		w.multi(zkcreate(w.c.tree.Job("job"), []byte("@hourly")))
		result, err := w.c.Pause(w.Context(), "job", PauseOptions{By: "alice@host"})
		if err != nil || result.Outcome != OutcomePaused || !result.Pause.Since.Equal(noon) {
			t.Errorf("paused: %+v, %v; want it since now", result, err)
		}
		w.wantSwitch(`{"schema":1,"paused":{"by":"alice@host"}}`)
		if got := w.get("job"); got.Paused == nil || got.Paused.By != "alice@host" {
			t.Errorf("paused: %+v", got.Paused)
		}
	})
}

// A lost reply does not repeat a change.
func TestPauseWithoutReply(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		for _, action := range []func() zkdev.Action{zkdev.CutAfter, zkdev.CutBefore} {
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
			if result, err := w.c.Pause(w.Context(), "job", PauseOptions{}); err != nil || result.Outcome != OutcomePaused {
				t.Errorf("pause: %s, %v", result.Outcome, err)
			}
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
			if result, err := w.c.Resume(w.Context(), "job", ResumeOptions{}); err != nil || result.Outcome != OutcomeResumed {
				t.Errorf("resume: %s, %v", result.Outcome, err)
			}
		}
		_, stat, err := w.hand.conn.Get(w.Context(), w.c.tree.Register("job"))
		w.must(err)
		if v := w.get("job").Version; v != 0 || stat.Version != 4 {
			t.Errorf("the job is v%d, its switch v%d; want that four changes of that left the job as it was", v, stat.Version)
		}
	})
}

func TestPauseRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		for _, row := range []struct {
			opts        PauseOptions
			field, want string
		}{
			{PauseOptions{Until: noon}, "Until", `Until "2000-01-01T12:00:00Z": is in the past`},
			{PauseOptions{For: -time.Second}, "For", `For "-1s": want a millisecond at least`},
			{PauseOptions{For: time.Hour, Until: noon.Add(time.Hour)}, "For", `For "1h0m0s": is not possible together with Until`},
			{PauseOptions{Missed: "never"}, "Missed", `Missed "never": is not known, want one of once, skip, all`},
			{PauseOptions{By: strings.Repeat("b", 1025)}, "By", `By "bbbb`},
			{PauseOptions{Reason: strings.Repeat("r", 1025)}, "Reason", `Reason "rrrr`},
			{PauseOptions{By: "eve\nState       owned"}, "By", `By "eve\nState       owned": contains '\n', want printable characters`},
			{PauseOptions{Reason: "\x1b[2J"}, "Reason", `Reason "\x1b[2J": contains '\x1b', want printable characters`},
			{PauseOptions{Reason: "\xff"}, "Reason", `Reason "\xff": is not valid UTF-8`},
		} {
			_, err := w.c.Pause(w.Context(), "job", row.opts)
			wantInvalid(t, err, row.field, row.want)
		}
		_, err := w.c.Resume(w.Context(), "job", ResumeOptions{Missed: "never"})
		wantInvalid(t, err, "Missed", `Missed "never"`)
		if _, err := w.c.Pause(w.Context(), "nobody", PauseOptions{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("no such job: %v", err)
		}
		w.put(w.c.tree.Job("job"), []byte("{"))
		if _, err := w.c.Pause(w.Context(), "job", PauseOptions{}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("garbage: %v", err)
		}
		if _, err := w.c.Resume(w.Context(), "job", ResumeOptions{}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("garbage: %v", err)
		}
	})
}
