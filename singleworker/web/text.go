package web

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// stamp is a moment on a page.
type stamp struct {
	at, now time.Time
	zone    *time.Location
}

func (s stamp) IsZero() bool  { return s.at.IsZero() }
func (s stamp) ISO() string   { return s.at.UTC().Format(time.RFC3339) }
func (s stamp) Full() string  { return plain.Absolute(s.at, s.zone) }
func (s stamp) Ago() string   { return plain.Relative(s.at, s.now) }
func (s stamp) Clock() string { return s.at.In(s.zone).Format("15:04:05 MST") }

func jobLink(name string) string      { return "job?name=" + url.QueryEscape(name) }
func instanceLink(id string) string   { return "instance?id=" + url.QueryEscape(id) }
func tickLink(name, at string) string { return jobLink(name) + "&at=" + url.QueryEscape(at) + "#why" }

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
