package zkrec_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A calendar that changes keeps its last contents: each holds from the write that made it on.
func TestCalendarKeepsFormerContents(t *testing.T) {
	t.Parallel()
	begin := time.UnixMilli(1_700_000_000_000)
	day := func(k int) job.Calendar { return job.Calendar{Dates: []string{fmt.Sprintf("2030-01-%02d", k)}} }
	var of zkrec.Calendar
	for k := 1; k <= zkrec.MaxContents+2; k++ {
		read := zkrec.NewCalendar(of.With(day(k)).Encode(), int32(k), begin.Add(time.Duration(k)*time.Hour))
		if read.Err != nil {
			t.Fatal(read.Err)
		}
		of = read.Calendar
		first := max(1, k+1-zkrec.MaxContents)
		if n := len(of.Contents); n != k+1-first {
			t.Fatalf("after %d contents it keeps %d", k, n)
		}
		for i, content := range of.Contents {
			since := begin.Add(time.Duration(first+i) * time.Hour)
			if content.Is.Dates[0] != day(first + i).Dates[0] || !zkrec.Time(content.Since).Equal(since) {
				t.Errorf("after %d contents number %d is %+v, want %v since %v", k, i, content, day(first+i), since)
			}
		}
	}
}
