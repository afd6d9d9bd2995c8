package words

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
)

var update = flag.Bool("update", false, "write the golden files")

// recorded are explanations as admin's own tests have drawn them from records, by what each
// is about.
func recorded(t *testing.T, name string) (whats []string, all map[string]admin.Explanation) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	all = map[string]admin.Explanation{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one map[string]admin.Explanation
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		for what, x := range one {
			whats, all[what] = append(whats, what), x
		}
	}
	return whats, all
}

func TestWhy(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"why-run", "why-not-run", "why-shards"} {
		whats, all := recorded(t, name)
		var text strings.Builder
		for _, what := range whats {
			fmt.Fprintf(&text, "# %s\n%s\n\n", what, strings.Join(Why(all[what]), "\n"))
		}
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != text.String() {
			t.Errorf("%s: %v\ngot\n%s", path, err, text.String())
		}
	}
}

// Ticks that an owner whose clock is ahead has recorded as missed are told apart from those that no
// owner, or a slow one, has missed.
func TestRecordedBeforeItCame(t *testing.T) {
	t.Parallel()
	tick := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	const ahead, noOwner, stalled = "the clock of app-1 was ahead", "the job had no owner at that time", "could not claim it in time"
	for _, row := range []struct {
		what   string
		reason history.Reason
		token  int64         // of the owner; the tick was recorded under 7
		since  time.Duration // the owner's, after the tick
		now    time.Duration // likewise
		want   string
	}{
		{"owned before the tick", history.ReasonNoOwner, 7, -20 * time.Second, time.Hour, ahead},
		{"owned after the tick", history.ReasonNoOwner, 7, 20 * time.Second, time.Hour, noOwner},
		{"the next owner was there before the tick", history.ReasonNoOwner, 9, -20 * time.Second, time.Hour, ahead},
		{"the next owner came after the tick", history.ReasonNoOwner, 9, 20 * time.Second, time.Hour, noOwner},
		{"the owner was slow", history.ReasonStalled, 7, -time.Hour, time.Hour, stalled},
		{"the clock leapt", history.ReasonStalled, 7, -time.Hour, 10 * time.Second, ahead},
	} {
		entry := history.Entry{
			Run:    history.Run{Tick: tick, InstanceID: "app-1", Token: 7, State: history.StateMissed, Ended: tick.Add(2 * time.Minute)},
			Reason: row.reason, Count: 1,
		}
		x := admin.Explanation{Tick: tick, Asked: tick, At: tick.Add(row.now), Entries: []history.Entry{entry}, History: []history.Entry{entry}}
		x.Job.State, x.Job.Owner = admin.StateOwned, &admin.Owner{InstanceID: "app-1", Token: row.token, Since: tick.Add(row.since)}
		if first := Why(x)[0]; !strings.Contains(first, row.want) {
			t.Errorf("%s: %q, want %q", row.what, first, row.want)
		}
	}
}

// Whatever the explanation, its sentences are sentences.
func TestSentencesAlways(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	whats, all := recorded(t, "why-not-run")
	base := all[whats[0]].At.Add(-12 * time.Hour)
	moment := func() time.Time {
		return []time.Time{{}, base.Add(time.Duration(random.IntN(24)) * time.Hour)}[random.IntN(2)]
	}
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	states := []string{"running", "ok", "failed", "timed_out", "interrupted", "lost", "skipped", "missed", "unknown", "unreadable", "novel"}
	fates := append(slices.Clone(states), "coming", "due", "late", "paused", "forgotten")
	entry := func() history.Entry {
		return history.Entry{
			Run: history.Run{
				Tick: moment(), RunID: pick("", "a", "b"), Manual: pick("", "", "id"), InstanceID: pick("", "app-1", "app-2"), Token: random.Int64N(30),
				State: history.State(pick(states...)), Started: moment(), Ended: moment(), Error: pick("", "no.\nstack"), NextAttempt: pick("", "retry"),
			},
			To: moment(), Count: random.IntN(3), Reason: history.Reason(pick("", "overlap", "paused", "no_owner", "stalled", "schedule_changed", "novel")),
		}
	}
	for range 3_000 {
		x := all[whats[random.IntN(len(whats))]]
		x.Tick, x.Fate, x.Unreadable = moment(), history.State(pick(fates...)), pick("", "garbage")
		x.Entries, x.History, x.Pause, x.ShardsSince = nil, nil, nil, moment()
		if random.IntN(2) == 0 {
			x.Entries = []history.Entry{entry(), entry()}
		}
		for range random.IntN(4) {
			x.History = append(x.History, entry())
		}
		if random.IntN(2) == 0 {
			x.Pause = &admin.Pause{Since: moment(), Until: moment(), By: pick("", "alice"), Reason: pick("", "why.")}
		}
		if random.IntN(3) == 0 {
			x.Job.State, x.Job.Owner, x.Job.Reason = admin.StateUnowned, nil, reason.Reason{Code: reason.NewerVersion, Error: "it stopped."}
		}
		sentences := Why(x)
		ok := len(sentences) > 0
		for _, sentence := range sentences {
			ok = ok && strings.HasSuffix(sentence, ".") && !strings.HasSuffix(sentence, "..") &&
				!strings.Contains(sentence, "0001") && !strings.Contains(sentence, "%!")
		}
		if !ok {
			t.Fatalf("seed %d: %q of %+v", seed, sentences, x)
		}
	}
}

// A run that waits for limits names who holds their places, and since when.
func TestWhyLimited(t *testing.T) {
	t.Parallel()
	held := []admin.HeldPlace{{Place: 0, Slot: "sync", Since: noon}, {Place: 1, Slot: "import[2]", Since: noon.Add(time.Minute)}}
	x := admin.Explanation{Tick: noon, Asked: noon, At: noon.Add(time.Minute), Fate: admin.FateLimited}
	x.Job.Limited = []admin.LimitWait{{Limit: "crm-api", Needs: 1, Max: 2, Held: held}, {Limit: "db", Needs: 3, Max: 3, Held: slices.Repeat(held, 2)[:4]}}
	const want = " waits for limit crm-api: 2 of 2 held by sync since 2026-11-22 12:00:00 UTC, import[2] since 2026-11-22 12:01:00 UTC, and for " +
		"3 places of limit db: 4 of 3 held by sync since 2026-11-22 12:00:00 UTC, import[2] since 2026-11-22 12:01:00 UTC, sync since 2026-11-22 12:00:00 UTC, 1 more."
	if text := strings.Join(Why(x), "\n"); !strings.Contains(text, want) {
		t.Errorf("%s\nwant%s", text, want)
	}
}
