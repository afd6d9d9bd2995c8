package job

import (
	"runtime"
	"testing"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// Jobs with the same schedule in the same zone share it while one of them uses it.
func TestSchedulesAreShared(t *testing.T) {
	t.Parallel()
	parse := func(text, zone string) *cronexpr.Schedule {
		s, err := (Job{Name: "j", Schedule: text, TimeZone: zone}).ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const text, zone = "1 2 3 * * ?", "Europe/Berlin"
	key := timetable{schedule: text, zone: zone}
	berlin := parse(text, zone)
	if parse(text, zone) != berlin {
		t.Error("the same schedule was parsed twice")
	}
	for _, other := range []*cronexpr.Schedule{parse(text, ""), parse(text, "Europe/Paris"), parse("1 2 4 * * ?", zone)} {
		if other == berlin {
			t.Errorf("%v in %v is taken for another schedule", other, other.Location())
		}
	}
	if other := parse("1 2 4 * * ?", zone); other.Location() != berlin.Location() {
		t.Error("the zone was loaded twice")
	}
	schedules.forget(key)
	if schedules.used(key) != berlin {
		t.Error("a schedule in use was forgotten")
	}
	runtime.KeepAlive(berlin)
	runtime.GC()
	schedules.forget(key) // as the collector does, in its time
	schedules.mu.Lock()
	defer schedules.mu.Unlock()
	if _, kept := schedules.values[key]; kept {
		t.Error("a schedule that nobody uses is kept")
	}
}

// The size of a job is found without encoding it only if it is below the limit however it is
// encoded.
func TestTextBytesIsNoLessThanTheRecord(t *testing.T) {
	t.Parallel()
	evil := string([]byte{0, 1, '"', '\\', 0xff, 0xfe}) + "\u2028<>&"
	for _, j := range []Job{
		{Name: "j", Schedule: "@daily", Args: map[string]string{evil: evil}},
		{Name: "j", Schedule: "@daily", Payload: []byte(`{"a":"<b>"}`), Labels: map[string]string{"k": evil}},
		{Name: "j", Schedule: evil, TimeZone: evil, Handler: evil, Description: evil, ShardParameters: map[int]string{1023: evil}},
	} {
		j.Name = ""
		data, err := j.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if most := maxEscape*j.textBytes() + maxNames; len(data) > most {
			t.Errorf("%+v takes %d bytes, bounded by %d", j, len(data), most)
		}
	}
}
