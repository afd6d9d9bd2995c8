package deputy

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	const least = 250 * time.Millisecond
	type seen struct{ at, late time.Duration }
	for what, test := range map[string]struct {
		saw   []seen
		at    time.Duration
		late  time.Duration
		grace time.Duration
	}{
		"nothing":                            {nil, time.Hour, 0, least},
		"on time":                            {[]seen{{0, 0}, {time.Second, time.Millisecond}}, time.Second, time.Millisecond, least},
		"early":                              {[]seen{{0, -time.Second}}, 0, 0, least},
		"late":                               {[]seen{{time.Second, 100 * time.Millisecond}}, time.Second, 100 * time.Millisecond, 300 * time.Millisecond},
		"it fades":                           {[]seen{{time.Second, 100 * time.Millisecond}}, 3 * time.Second, 50 * time.Millisecond, least},
		"it fades by half every two seconds": {[]seen{{0, 800 * time.Millisecond}}, 6 * time.Second, 100 * time.Millisecond, 300 * time.Millisecond},
		"it is over":                         {[]seen{{0, 800 * time.Millisecond}}, time.Hour, 0, least},
		"the larger counts":                  {[]seen{{0, 100 * time.Millisecond}, {0, 300 * time.Millisecond}, {0, 200 * time.Millisecond}}, 0, 300 * time.Millisecond, 900 * time.Millisecond},
		"what is larger than the faded":      {[]seen{{0, 100 * time.Millisecond}, {10 * time.Second, 90 * time.Millisecond}}, 10 * time.Second, 90 * time.Millisecond, 270 * time.Millisecond},
		"what is smaller than the faded":     {[]seen{{0, 400 * time.Millisecond}, {2 * time.Second, 150 * time.Millisecond}}, 4 * time.Second, 100 * time.Millisecond, 300 * time.Millisecond},
		"at most so much":                    {[]seen{{0, time.Minute}}, 0, time.Minute, maxGrace},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := pace{least: least}
			for _, s := range test.saw {
				p.saw(s.at, s.late)
			}
			if late, grace := p.lately(test.at), p.grace(test.at); late != test.late || grace != test.grace {
				t.Errorf("lately %v late, grace %v; want %v, %v", late, grace, test.late, test.grace)
			}
		})
	}
}
