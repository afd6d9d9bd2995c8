package web

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// look is when somebody looks at the group, and the time zone of the times that they see.
type look struct {
	now  time.Time
	zone *time.Location
}

func (l look) stamp(at time.Time) stamp { return stamp{l, at} }

// stamp is a moment on a page.
type stamp struct {
	look

	at time.Time
}

func (s stamp) IsZero() bool  { return s.at.IsZero() }
func (s stamp) ISO() string   { return s.at.UTC().Format(time.RFC3339) }
func (s stamp) Full() string  { return plain.Absolute(s.at, s.zone) }
func (s stamp) Ago() string   { return plain.Relative(s.at, s.now) }
func (s stamp) Clock() string { return s.at.In(s.zone).Format("15:04:05 MST") }

func jobLink(name string) string      { return "job?name=" + url.QueryEscape(name) }
func instanceLink(id string) string   { return "instance?id=" + url.QueryEscape(id) }
func tickLink(name, at string) string { return jobLink(name) + "&at=" + url.QueryEscape(at) + "#why" }

// rounds are round lengths of time.
var rounds = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
	15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 96 * time.Hour, 7 * 24 * time.Hour,
}

// rounded is the shortest round length that is not shorter, if there is one.
func rounded(d time.Duration) time.Duration {
	i, _ := slices.BinarySearch(rounds, d)
	if i == len(rounds) {
		return d
	}
	return rounds[i]
}

// counted is "1 job" or "2 jobs".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clipped is how much of an error a table, or the log, shows.
const clipped = 200

// clip is the beginning of a text for the log, printable.
func clip(text string) string {
	if len(text) > clipped {
		text = strings.ToValidUTF8(text[:clipped], "") + "…"
	}
	return plain.Printable(text)
}

// legible makes every line of a page printable, whatever was put into it.
func legible(page string) string {
	var text strings.Builder
	text.Grow(len(page))
	for line := range strings.Lines(page) {
		line, more := strings.CutSuffix(line, "\n")
		text.WriteString(plain.Printable(line))
		if more {
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// encoded is a document as swctl -o json prints it, on one line, or the error that it ended with.
func encoded(document any, err error) ([]byte, error) {
	var text bytes.Buffer
	if err == nil {
		err = plain.JSON(&text, "", document)
	}
	return text.Bytes(), err
}
