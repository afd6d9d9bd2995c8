package fields

import (
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/job"
)

// moment is a point in time.
func moment(f field, at func(*job.Job) *time.Time) field {
	f.schema = map[string]any{"type": "string", "format": "date-time"}
	format := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339Nano)
	}
	return single(f, at, format, func(_ *cmdline.Call, f field, text string) (time.Time, error) {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			err = cmdline.Usage("--%s %q: want a time such as 2026-12-01T00:00:00+01:00", f.flag, text).Try("%s", f.try)
		}
		return t, err
	})
}
