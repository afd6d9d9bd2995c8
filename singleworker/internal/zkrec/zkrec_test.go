package zkrec_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

func TestWatchedPaths(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("billing")
	for path, want := range map[string]string{
		tree.Job("job"): "job", tree.Alive("job"): "job", tree.Register("job"): "job", tree.Requests("job"): "job",
		tree.Tick("job"): "job", tree.Shards("job"): "job",
		tree.Slot("job[3]"): "job[3]", tree.Alive("job[3]"): "job[3]", tree.Tick("job[3]"): "job[3]",
		tree.Alive("job/app[3]"): "job/app[3]", tree.Requests("job/alive"): "job/alive", tree.Slot("job/a"): "job/a", tree.Everywhere("job"): "job",
	} {
		if slot, ok := tree.Watched(path); slot != want || !ok {
			t.Errorf("Watched(%s) = %q, %v; want %s, true", path, slot, ok, want)
		}
	}
	for _, path := range []string{
		tree.Root(), tree.Root() + "/", tree.History("job"), tree.Heartbeat("job", "sid"), tree.Registration("job", "sid"),
		tree.Heartbeat("job[3]", "sid"), tree.Shards("job") + "/x", tree.Shards("job") + "/x/alive",
		tree.Heartbeat("job/a", "a"), tree.History("job/a"),
		tree.Instances(), tree.Instance("alive"), "/billing2/job/alive", "/job/alive", "",
	} {
		if slot, ok := tree.Watched(path); ok {
			t.Errorf("Watched(%q) = %q, want none", path, slot)
		}
	}
}

func TestReservedNodesAreNotJobs(t *testing.T) {
	t.Parallel()
	for child, want := range map[string]bool{
		"daily": true, "a_b": true, "_instances": false, "_leader": false, "a[1]": false, "a[x]": true,
		" " + "lead": false, "": false, strings.Repeat("x", 201): false, "a\u202eb": false,
	} {
		if got := zkrec.IsJob(child); got != want {
			t.Errorf("IsJob(%q) = %v, want %v", child, got, want)
		}
	}
}

func TestPlainCronTextIsASpec(t *testing.T) {
	t.Parallel()
	for data, schedule := range map[string]string{
		"0 0 3 * * ?":          "0 0 3 * * ?",
		"  */5 * * * *\r\n":    "*/5 * * * *", // as a shell's "create" leaves it
		"@every 90s":           "@every 90s",
		"certainly not a cron": "certainly not a cron", // the schedule is not judged here
	} {
		spec, err := zkrec.ParseSpec("job", []byte(data))
		if err != nil || spec.Job.Schedule != schedule {
			t.Errorf("ParseSpec(%q) = %+v, %v; want schedule %q", data, spec, err, schedule)
		}
		if got := string(spec.Encode()); got != schedule {
			t.Errorf("%q is written as %q, want it plain", schedule, got)
		}
	}
}

// What plain text could not be told apart from is written as JSON.
func TestScheduleThatIsNoPlainText(t *testing.T) {
	t.Parallel()
	for _, schedule := range []string{"", "{}", " {", " @daily", "@daily\n"} {
		data := zkrec.Spec{Job: job.Job{Schedule: schedule}}.Encode()
		if spec, err := zkrec.ParseSpec("job", data); err != nil || spec.Job.Schedule != schedule {
			t.Errorf("%q is written as %s and read as %q, %v", schedule, data, spec.Job.Schedule, err)
		}
	}
}

func TestUnknownFieldsOfASpecAreKept(t *testing.T) {
	t.Parallel()
	const newer = `{"schema":1,"schedule":"@daily","weather":"fine","tides":{"n":3},"handler":"h"}`
	old, err := zkrec.ParseSpec("job", []byte(newer))
	if err != nil {
		t.Fatal(err)
	}

	changed := old
	changed.Job.Schedule = "@hourly"
	want := `{"schema":1,"schedule":"@hourly","handler":"h","tides":{"n":3},"weather":"fine"}`
	if got := string(changed.Encode()); got != want {
		t.Errorf("a changed schedule gives\n%s, want\n%s", got, want)
	}

	replaced := zkrec.Spec{Job: job.Job{Schedule: "@daily"}}.Over(old.WrittenAt(time.UnixMilli(7)))
	want = `{"schema":1,"schedule":"@daily","since":7,"tides":{"n":3},"weather":"fine"}`
	if got := string(replaced.Encode()); got != want {
		t.Errorf("a replaced spec gives\n%s, want\n%s", got, want)
	}
}

// A spec keeps the schedules that it had, the latest first, and of more than MaxFormer the time of
// all.
func TestFormerSchedulesAreBounded(t *testing.T) {
	t.Parallel()
	spec := zkrec.Spec{Job: job.Job{Schedule: "@every 1s"}, Since: 1}
	for n := 2; n <= zkrec.MaxFormer+4; n++ {
		next := zkrec.Spec{Job: job.Job{Schedule: fmt.Sprintf("@every %ds", n)}}
		spec = next.Over(spec)
		spec.Since = int64(n) // when the node was written
	}
	var chain []string
	for f := spec.Former; f != nil; f = f.Former {
		chain = append(chain, fmt.Sprintf("%s since %d", f.Schedule, f.Since))
	}
	last := len(chain) - 1
	if len(chain) != zkrec.MaxFormer || chain[0] != "@every 11s since 11" || chain[last] != "@every 4s since 1" {
		t.Errorf("former schedules %q, want %d, the oldest since 1", chain, zkrec.MaxFormer)
	}
}

// Times that a writer leaves out are by ZooKeeper's clock, and stay so when the node is written
// again.
func TestWrittenAt(t *testing.T) {
	t.Parallel()
	const minute = zkrec.Duration(time.Minute)
	for what, test := range map[string]struct{ pause, want zkrec.Pause }{
		"paused until resumed":  {zkrec.Pause{}, zkrec.Pause{Since: 1000}},
		"paused for a minute":   {zkrec.Pause{For: minute}, zkrec.Pause{Since: 1000, Until: 61_000}},
		"prolonged by a minute": {zkrec.Pause{Since: 500, For: minute}, zkrec.Pause{Since: 500, Until: 61_000}},
		"paused until a time":   {zkrec.Pause{Until: 5000}, zkrec.Pause{Since: 1000, Until: 5000}},
		"resumed":               {zkrec.Pause{Since: 500, Over: true}, zkrec.Pause{Since: 500, Until: 1000}},
		"nothing is left out":   {zkrec.Pause{Since: 500, Until: 700}, zkrec.Pause{Since: 500, Until: 700}},
	} {
		read, err := zkrec.ParseSwitch(zkrec.Switch{Paused: &test.pause}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		read = read.WrittenAt(time.UnixMilli(1000))
		if *read.Paused != test.want {
			t.Errorf("%s: %+v, want %+v", what, *read.Paused, test.want)
		}
		if again := read.WrittenAt(time.UnixMilli(9000)); *again.Paused != test.want {
			t.Errorf("%s, and read again later: %+v", what, *again.Paused)
		}
	}
	if none := (zkrec.Switch{}).WrittenAt(time.UnixMilli(1000)); none.Paused != nil || none.Encode() != nil {
		t.Errorf("without a pause: %+v", none)
	}
	for since, want := range map[int64]int64{0: 1000, 7: 7} {
		if spec := (zkrec.Spec{Since: since}).WrittenAt(time.UnixMilli(1000)); spec.Since != want {
			t.Errorf("a spec since %d that was written at 1000 is since %d, want %d", since, spec.Since, want)
		}
	}
}

// The JSON package of the standard library reads "Schedule" as "schedule", so a manually written
// one is not an unknown field: if kept, it would undo every later change. A job is done with one
// schedule: under the next one it is not, whichever version has written that.
func TestDone(t *testing.T) {
	t.Parallel()
	written := time.UnixMilli(5000)
	read := func(text string) zkrec.Spec {
		spec, err := zkrec.ParseSpec("j", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return spec.WrittenAt(written)
	}
	done := read(`{"schedule":"@at 2026-12-24T18:00:00Z","since":1000,"done":{"since":1000}}`)
	if done.Done == nil || *done.Done != (zkrec.Done{At: 5000, Since: 1000}) {
		t.Fatalf("done: %+v, want it since the node was written", done.Done)
	}
	if again := read(string(done.Encode())); again.Done == nil || *again.Done != *done.Done {
		t.Errorf("read again: %+v", again.Done)
	}
	if other := read(`{"schedule":"@daily","done":{"at":3000,"since":1000}}`); other.Done != nil {
		t.Errorf("of a schedule since %d: %+v", other.Since, other.Done)
	}
	edited := done
	edited.Job.Retries = 3
	if kept := edited.Over(done); kept.Done == nil {
		t.Error("another policy opens the job again")
	}
	edited.Job.Shards = 2
	if kept := edited.Over(done); kept.Done != nil {
		t.Error("nobody would divide a job that is done")
	}
	edited = done
	edited.Job.Schedule = "@daily"
	if kept := edited.Over(done); kept.Done != nil {
		t.Error("another schedule does not open the job again")
	}
}

func TestFieldsInCapitalsAreNotKept(t *testing.T) {
	t.Parallel()
	old, err := zkrec.ParseSpec("job", []byte(`{"Schedule":"@daily","TIME_ZONE":"Asia/Tokyo","weather":"fine"}`))
	if err != nil || old.Job.Schedule != "@daily" || old.Job.TimeZone != "Asia/Tokyo" {
		t.Fatalf("read as %+v, %v", old, err)
	}
	spec, err := zkrec.ParseSpec("job", zkrec.Spec{Job: job.Job{Schedule: "@hourly"}}.Over(old).Encode())
	if err != nil || spec.Job.Schedule != "@hourly" || spec.Job.TimeZone != "" {
		t.Errorf("after a change to @hourly it is %+v, %v", spec, err)
	}
}

func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	oversized := strings.Repeat("x", zkrec.MaxRecordBytes+257)
	parseSpec := func(data []byte) error { _, err := zkrec.ParseSpec("job", data); return err }
	parseTick := func(data []byte) error { _, err := zkrec.ParseTick(data, time.Time{}); return err }
	parseOwner := func(data []byte) error { _, err := zkrec.ParseOwner(data); return err }
	parseRequest := func(data []byte) error { _, err := zkrec.ParseRequest(data); return err }
	parseInstance := func(data []byte) error { _, err := zkrec.ParseInstance(data); return err }
	for _, row := range []struct {
		parse func([]byte) error
		data  string
		want  string
	}{
		{parseSpec, "", "job spec is empty, want a cron expression or a JSON object"},
		{parseSpec, " \n", "job spec is empty"},
		{parseSpec, oversized, "job spec has 65793 bytes, at most 65536 are read"},
		{parseSpec, "{", `job spec "{": unexpected end of JSON input`},
		{parseSpec, `{"schedule":7}`, `job spec "{\"schedule\":7}": job.schedule "7": json: cannot unmarshal number`},
		{parseSpec, `{"args":["a"]}`, "cannot unmarshal array"},
		{parseSpec, "{" + oversized[:100], `job spec "{` + strings.Repeat("x", 39) + `"...: invalid character`},
		{parseTick, "1798131600000", `tick record "1798131600000": json: cannot unmarshal number`},
		{parseTick, "{]", `tick record "{]": invalid character`},
		{parseOwner, "1798131600000", `owner record "1798131600000": json: cannot unmarshal number`},
		{parseOwner, "192.168.0.7", `owner record "192.168.0.7": invalid character`},
		{parseRequest, `{"kind":"stop","by":"ann"}`, "it does not say which run to stop"},
		{parseInstance, "", `instance record "": unexpected end of JSON input`},
		{parseInstance, "\x00", `instance record "\x00": invalid character`},
	} {
		if err := row.parse([]byte(row.data)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.50q: %v\nwant %s", row.data, err, row.want)
		}
	}
}

func TestEmptyNodesSayThatThereIsNothing(t *testing.T) {
	t.Parallel()
	for _, data := range [][]byte{nil, {}, []byte(" \n")} {
		if o, err := zkrec.ParseOwner(data); err != nil || o != (zkrec.Owner{}) {
			t.Errorf("ParseOwner(%q) = %+v, %v; want nobody", data, o, err)
		}
		if k, err := zkrec.ParseTick(data, time.Time{}); err != nil || k != (zkrec.Tick{}) {
			t.Errorf("ParseTick(%q) = %+v, %v; want none", data, k, err)
		}
		if k, err := zkrec.ParseTick(data, time.UnixMilli(7)); err != nil || k != (zkrec.Tick{Watermark: 7}) {
			t.Errorf("ParseTick(%q) = %+v, %v; want it to account for what was before", data, k, err)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	_, specErr := zkrec.ParseSpec("job", []byte(`{"schema":8,"schedule":"@daily"}`))
	_, tickErr := zkrec.ParseTick([]byte(`{"schema":2,"tick":1}`), time.Time{})
	_, requestErr := zkrec.ParseRequest([]byte(`{"schema":2,"kind":"run","tick":1}`))
	for what, test := range map[string]struct {
		err   error
		known int
	}{"job spec": {specErr, zkrec.SpecSchema}, "tick record": {tickErr, zkrec.Schema}, "request": {requestErr, zkrec.Schema}} {
		var newer *zkrec.SchemaError
		if !errors.As(test.err, &newer) || newer.Found != test.known+1 || newer.Known != test.known {
			t.Errorf("%s of schema %d: %v, want a *SchemaError", what, test.known+1, test.err)
			continue
		}
		want := fmt.Sprintf("%s: written with schema %d, this version reads up to %d: upgrade it", what, test.known+1, test.known)
		if test.err.Error() != want {
			t.Errorf("%q, want %q", test.err, want)
		}
	}
	// Whether an instance lives must be known of any version.
	i, err := zkrec.ParseInstance([]byte(`{"schema":2,"incarnation":"inc","mood":"good"}`))
	if err != nil || i.Incarnation != "inc" {
		t.Errorf("instance of schema 2: %+v, %v; want it read", i, err)
	}
}

func TestErrorTextIsCapped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"short":                                  5,
		strings.Repeat("e", zkrec.MaxErrorBytes): zkrec.MaxErrorBytes,
		strings.Repeat("e", zkrec.MaxErrorBytes+1): zkrec.MaxErrorBytes,
		"ee" + strings.Repeat("€", 2000):           zkrec.MaxErrorBytes - 2, // no character is cut in two
	} {
		tick, err := zkrec.ParseTick(zkrec.Tick{Run: zkrec.Run{Error: text}}.Encode(), time.Time{})
		if err != nil || len(tick.Error) != want || !strings.HasPrefix(text, tick.Error) || !utf8.ValidString(tick.Error) {
			t.Errorf("of %d bytes %d are kept, %v; want the first %d", len(text), len(tick.Error), err, want)
		}
	}
}

func TestFingerprintIsOfTheContent(t *testing.T) {
	t.Parallel()
	base := zkrec.Spec{Job: job.Job{
		Schedule: "@daily", TimeZone: "Asia/Tokyo", Handler: "h",
		Args: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"},
	}}
	sum := base.Fingerprint()
	if len(sum) != 16 {
		t.Errorf("Fingerprint = %q, want 16 hexadecimal digits", sum)
	}

	same := map[string]zkrec.Spec{"Declared": base, "map order": base, "unknown fields": base}
	change := func(from map[string]zkrec.Spec, name string, f func(*zkrec.Spec)) {
		s := base
		s.Job.Args = maps.Clone(base.Job.Args)
		f(&s)
		from[name] = s
	}
	change(same, "Declared", func(s *zkrec.Spec) { s.Declared = sum })
	change(same, "map order", func(s *zkrec.Spec) {
		s.Job.Args = map[string]string{}
		for _, name := range []string{"d", "b", "c", "a"} {
			s.Job.Args[name] = base.Job.Args[name]
		}
	})
	change(same, "unknown fields", func(s *zkrec.Spec) {
		old, err := zkrec.ParseSpec("job", []byte(`{"schedule":"@hourly","weather":"fine"}`))
		if err != nil {
			t.Fatal(err)
		}
		*s = s.Over(old)
	})
	for name, s := range same {
		if got := s.Fingerprint(); got != sum {
			t.Errorf("another %s gives %s, want the same %s", name, got, sum)
		}
	}

	other := make(map[string]zkrec.Spec)
	change(other, "schedule", func(s *zkrec.Spec) { s.Job.Schedule = "@hourly" })
	change(other, "zone", func(s *zkrec.Spec) { s.Job.TimeZone = "" })
	change(other, "handler", func(s *zkrec.Spec) { s.Job.Handler = "" })
	change(same, "time of change", func(s *zkrec.Spec) { s.Since = 7; s.Former = &zkrec.Former{Schedule: "@yearly"} })
	change(same, "pause", func(s *zkrec.Spec) { s.Switch.Paused = &zkrec.Pause{Since: 7} })
	change(other, "argument", func(s *zkrec.Spec) { s.Job.Args["a"] = "2" })
	for name, s := range other {
		if got := s.Fingerprint(); got == sum {
			t.Errorf("another %s gives the same %s", name, got)
		}
	}

	// Named or left out, the handler is the job's own.
	named, left := base, other["handler"]
	named.Job.Name, left.Job.Name = "h", "h"
	if got, want := named.Fingerprint(), left.Fingerprint(); got != want {
		t.Errorf("the default handler, named, gives %s, left out %s", got, want)
	}

	// A job's print is kept in its record: it must not change between versions.
	if got, want := (zkrec.Spec{Job: job.Job{Schedule: "@daily"}}).Fingerprint(), "52ebc225183db0f8"; got != want {
		t.Errorf("Fingerprint of @daily = %s, want %s as ever", got, want)
	}
}

// A time that no calendar has was written manually: the record is invalid, rather than never due.
func TestTimesFarOff(t *testing.T) {
	t.Parallel()
	for _, far := range []int64{1<<63 - 1, -1 << 63, 253402300800000} {
		for field, spec := range map[string]string{
			"Since": `"since":%d`, "Former.Since": `"former":{"schedule":"@daily","former":{"schedule":"@daily","since":%d}}`,
			"Layout.Since": `"layout":{"since":%d}`, "Layout.Until": `"layout":{"until":%d}`,
		} {
			text := fmt.Sprintf(`{"schedule":"@daily",`+spec+"}", far)
			read, err := zkrec.ParseSpec("job", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			refused := new(invalid.FieldError)
			if err := read.Check(); !errors.As(err, &refused) || refused.Field != field {
				t.Errorf("Check of %s = %v, want that %s is refused", text, err, field)
			}
		}
		for field, text := range map[string]string{"Paused.Since": `{"paused":{"since":%d}}`, "Paused.Until": `{"paused":{"since":1,"until":%d}}`} {
			read, err := zkrec.ParseSwitch(fmt.Appendf(nil, text, far))
			if err != nil {
				t.Fatal(err)
			}
			refused := new(invalid.FieldError)
			if err := (zkrec.Spec{Job: job.Job{Name: "job", Schedule: "@daily"}}).With(read).Check(); !errors.As(err, &refused) || refused.Field != field {
				t.Errorf("Check of %s = %v, want that %s is refused", fmt.Sprintf(text, far), err, field)
			}
		}
		for _, field := range []string{"watermark", "tick", "started", "ended", "next_attempt_at", "busy_since"} {
			text := fmt.Sprintf(`{"schema":1,%q:%d}`, field, far)
			if read, err := zkrec.ParseTick([]byte(text), time.Time{}); err == nil {
				t.Errorf("ParseTick of %s = %+v", text, read)
			}
		}
	}
}

// A tick that no calendar has is not later than all others.
func TestAlarmAndCompletionAtNoTime(t *testing.T) {
	t.Parallel()
	for _, tick := range []string{"253402300800000", "9223372036854775807", "-9223372036854775808"} {
		data := []byte(`{"schema":1,"tick":` + tick + `}`)
		if a, err := zkrec.ParseAlarm(data); err == nil || a.Tick != 0 {
			t.Errorf("alarm %s: %+v, %v", data, a, err)
		}
		if c, err := zkrec.ParseComplete(data); err == nil || c.Tick != 0 {
			t.Errorf("complete %s: %+v, %v", data, c, err)
		}
	}
}
