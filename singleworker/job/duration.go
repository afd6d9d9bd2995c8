package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a length of time as time.ParseDuration does, with weeks and days before the
// rest: "2w", "1d12h", "90m". A day has 24 hours. So durations are read in JSON, in files and on
// command lines. Weeks and days are below 10,000 each.
func ParseDuration(text string) (time.Duration, error) {
	rest, days := text, time.Duration(0)
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, found := strings.Cut(rest, unit.name)
		if n, err := strconv.ParseUint(number, 10, 64); found && err == nil && n < 10_000 {
			rest, days = after, days+time.Duration(n)*unit.size
		}
	}
	if rest == "" && text != "" {
		return days, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || rest != text && (d < 0 || days+d < days) {
		return 0, fmt.Errorf("%q is not a duration such as 90m, 12h or 7d", text)
	}
	return days + d, nil
}
