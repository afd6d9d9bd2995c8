package cronexpr_test

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

func newYork() *time.Location {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	return loc
}

func ExampleParse() {
	s, err := cronexpr.Parse("0 30 9 ? * mon-fri", newYork())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s, "in", s.Location())
	// Output: 0 30 9 ? * MON-FRI in America/New_York
}

func ExampleError() {
	_, err := cronexpr.Parse("0 0 25 * * ?", nil)
	fmt.Println(err)

	var fault *cronexpr.Error
	if errors.As(err, &fault) {
		fmt.Printf("%s\n%*s %s\n", fault.Text, fault.Column, "^", fault.Want)
	}
	// Output:
	// schedule "0 0 25 * * ?": hour at column 5: 25 is out of range, want 0-23
	// 0 0 25 * * ?
	//     ^ 0-23
}

func ExampleError_Error() {
	for _, text := range []string{"0 0 3 30 2 ?", "@every 100ms", "TZ=UTC 0 9 * * *"} {
		_, err := cronexpr.Parse(text, nil)
		fmt.Println(err.Error())
	}
	// Output:
	// schedule "0 0 3 30 2 ?": never fires in the years 1970 to 2099, want times that exist
	// schedule "@every 100ms": @every at column 8: 100ms is too short, want 1s or more
	// schedule "TZ=UTC 0 9 * * *": column 1: unexpected time zone, want the time zone in a separate setting
}

func ExampleSchedule_Next() {
	s, err := cronexpr.Parse("0 0 12 LW * ? 2026", nil) // the last workday, at noon
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 10, 15, 0, 0, 0, 0, time.UTC)
	for at = s.Next(at); !at.IsZero(); at = s.Next(at) {
		fmt.Println(at.Format("Mon 2 Jan 15:04"))
	}
	// Output:
	// Fri 30 Oct 12:00
	// Mon 30 Nov 12:00
	// Thu 31 Dec 12:00
}

// Clocks in New York go from 02:00 to 03:00 on 8 March 2026, and back from
// 02:00 to 01:00 on 1 November.
func ExampleSchedule_Next_daylightSaving() {
	show := func(text string, from time.Time) {
		s, err := cronexpr.Parse(text, newYork())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(s)
		for range 4 {
			from = s.Next(from)
			fmt.Println(from.Format("  Jan 2 15:04 MST"))
		}
	}
	show("0 30 2 * * ?", time.Date(2026, 3, 7, 0, 0, 0, 0, newYork()))
	show("0 30 * * * ?", time.Date(2026, 11, 1, 0, 0, 0, 0, newYork()))
	// Output:
	// 0 30 2 * * ?
	//   Mar 7 02:30 EST
	//   Mar 8 03:00 EDT
	//   Mar 9 02:30 EDT
	//   Mar 10 02:30 EDT
	// 0 30 * * * ?
	//   Nov 1 00:30 EDT
	//   Nov 1 01:30 EDT
	//   Nov 1 01:30 EST
	//   Nov 1 02:30 EST
}

func ExampleSchedule_Prev() {
	s, err := cronexpr.Parse("@every 90s", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 12, 24, 18, 0, 40, 0, time.UTC)
	fmt.Println("last", s.Prev(now).Format(time.TimeOnly))
	fmt.Println("next", s.Next(now).Format(time.TimeOnly))
	// Output:
	// last 18:00:00
	// next 18:01:30
}

func ExampleSchedule_String() {
	for _, text := range []string{"  0 0 12  ? * mon-fri", "@midnight", "@every 90s"} {
		s, err := cronexpr.Parse(text, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(s.String())
	}
	// Output:
	// 0 0 12 ? * MON-FRI
	// @daily
	// @every 1m30s
}

func ExampleSchedule_Location() {
	s, err := cronexpr.Parse("@daily", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Location())
	// Output: UTC
}
