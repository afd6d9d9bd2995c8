package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whatever someone writes manually into the records, swctl works. A job with records that cannot be
// read waits until it is repaired; with any others it continues.
func TestGarbageInTheRecords(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	raw := c.raw("")
	c.start(options{})
	ctl.run(exitOK, "submit", "job", everySecond, "--handler", work)
	first := c.awaitRun("job", time.Time{}, ended)

	for k, request := range []string{
		"", "{nope", "[]", `{"kind":"dance"}`, `{"schema":99,"kind":"run"}`, `{"kind":"run","args":{"for":1}}`, `{"kind":"stop"}`,
	} {
		c.create(raw, request, "job", "requests", string(rune('a'+k)))
	}
	c.create(raw, "garbage", "job", "alarm")
	for _, garbage := range []string{
		"garbage", `{"watermark":"noon"}`,
		`{"schema":1,"watermark":-9223372036854775808,"tick":-5,"state":"ok"}`,
		`{"schema":1,"tick":1,"run_id":"x","sid":"a","attempt":-4,"state":""}`,
		`{"schema":1,"watermark":1,"tick":5,"state":"dancing","next_attempt":"dance","next_attempt_at":9223372036854775807}`,
	} {
		// Between two ticks: a record that is destroyed in mid-run has its tick run again.
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1500 * time.Millisecond)))
		for _, node := range []string{"tick", "history"} {
			_, err := raw.Set(c.node("job", node), []byte(garbage), -1)
			c.must(err)
		}
		written := time.Now()
		for _, args := range [][]string{{"list"}, {"why", "job"}, {"history", "job", "-o", "json"}} {
			ctl.run(exitOK, args...)
		}
		shown, repaired := ctl.run(exitOK, "show", "job").stdout, ctl.run(exitOK, "repair", "job", "--yes").stdout
		invalid := strings.Contains(shown, c.node("job", "tick")+" cannot be read")
		if needed := !strings.Contains(repaired, "needs no repair"); needed != invalid {
			t.Errorf("%s: show says\n%s\nrepair says\n%s", garbage, shown, repaired)
		}
		c.awaitRun("job", written, func(r run) bool { return r.Tick.After(written) }, ended)
	}
	for _, r := range c.runs("job") {
		if r.Manual || r.Tick.Before(first.Tick) {
			t.Errorf("garbage was run: %v", r)
		}
	}
	if run := ctl.trigger(exitOK, "job"); run.State != stateOK {
		t.Errorf("trigger beside unreadable requests: %v", run)
	}

	// Ticks up to a time that is far ahead were claimed: by a clock that was wrong.
	ctl.run(exitOK, "pause", "job")
	through := fmt.Sprintf(`{"schema":1,"watermark":%d}`, time.Now().Add(time.Hour).UnixMilli())
	_, err := raw.Set(c.node("job", "tick"), []byte(through), -1)
	c.must(err)
	if why := ctl.run(exitOK, "why", "job").stdout; !strings.Contains(why, "nothing runs before then. After that the job runs again. If that is too late, cancel it and submit it again") {
		t.Errorf("why says %q", why)
	}
}
