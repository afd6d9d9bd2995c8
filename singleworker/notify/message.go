package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Item is one piece of news about a job. Its texts hold no control characters.
type Item struct {
	// ID is the same if the item is sent again.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Job is the name of the job, or of the shard, such as "report[3]", or of a job that runs on every
	// instance, with the instance: "report/app-1".
	Job string `json:"job"`
	// Of is the kind that the job has recovered from; else empty. Canceled means that the job, or the
	// shard, no longer exists.
	Of       Kind `json:"of,omitempty"`
	Canceled bool `json:"canceled,omitempty"`
	// Tick is the first tick concerned; zero if that is not known.
	Tick time.Time `json:"tick,omitzero"`
	// At is when the episode began, or ended, according to the records or, of a late or a hung job,
	// the sender's clock.
	At time.Time `json:"at,omitzero"`
	// Count is how many runs have failed, or ticks were missed, in this episode until the message was
	// made.
	Count int `json:"count,omitempty"`
	// InstanceID is where the last run failed, or hangs.
	InstanceID string `json:"instance_id,omitempty"`
	RunID      string `json:"run_id,omitempty"` // of the first run that failed, or the one that hangs
	// Error is the first line of the last error, or the reason, of at most 300 bytes.
	Error string `json:"error,omitempty"`
}

// Message is sent to a target at a time.
type Message struct {
	ServerType string
	// Sender is the Config.ID of the Notifier.
	Sender string
	At     time.Time // by the sender's clock
	Items  []Item    // at least one; the oldest first
	// Test means that the message was asked for to try the target.
	Test bool
}

// listed is how many items a text for people lists.
const listed = 20

// Subject is the message in a line of at most 200 bytes: "billing: report failed", or "billing: 2
// failed, 1 late".
func (m Message) Subject() string {
	subject := plain.Printable(m.ServerType) + ": "
	switch {
	case m.Test:
		return subject + "test message"
	case len(m.Items) == 1:
		return shortened(subject+m.Items[0].Job+" "+string(m.Items[0].Kind), 200)
	}
	var counts []string
	for _, kind := range kinds {
		n := 0
		for _, item := range m.Items {
			if item.Kind == kind {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, strconv.Itoa(n)+" "+string(kind))
		}
	}
	return shortened(subject+strings.Join(counts, ", "), 200)
}

// Text is the message for people: the subject and, if most bytes suffice, a line for each of the
// first 20 items. Times are in UTC.
func (m Message) Text(most int) string {
	var text strings.Builder
	text.WriteString(m.Subject() + "\n")
	if m.Test {
		text.WriteString("Sent by " + plain.Printable(m.Sender) + " to try this target. Nothing is wrong.\n")
		return shortened(text.String(), most)
	}
	for i, item := range m.Items {
		line := "- " + item.String() + "\n"
		const more = len("and 1000000 more\n")
		if i == listed || text.Len()+len(line)+more > most {
			fmt.Fprintf(&text, "and %d more\n", len(m.Items)-i)
			break
		}
		text.WriteString(line)
	}
	return shortened(text.String(), most)
}

// String is the item in a line.
func (i Item) String() string {
	line := i.Job + " " + string(i.Kind)
	switch {
	case i.Kind == Recovered && i.Canceled:
		line = i.Job + " was canceled"
	case i.Kind == Recovered:
		line = i.Job + " is no longer " + string(i.Of)
		if i.Of == Failed || i.Of == Missed {
			line = i.Job + " recovered"
		}
	}
	switch {
	case i.Kind == Recovered && i.Of == Failed:
		line += " after " + counted(i.Count, "failed run")
	case i.Kind == Recovered && i.Of == Missed:
		line += " after " + counted(i.Count, "missed tick")
	case i.Kind == Missed:
		line += " " + counted(i.Count, "tick")
	case i.Count > 1:
		line += fmt.Sprintf(" %d times", i.Count)
	}
	if !i.Tick.IsZero() {
		line += ", since " + plain.Absolute(i.Tick, time.UTC)
	}
	if i.InstanceID != "" && i.Kind != Recovered {
		line += ", on " + i.InstanceID
	}
	if i.Error != "" && i.Kind != Recovered {
		line += ": " + i.Error
	}
	return line
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// shortened cuts a text at a rune.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := 0
	for i, r := range text {
		if i+len(string(r)) > most-len("...") {
			break
		}
		cut = i + len(string(r))
	}
	return text[:cut] + "..."
}

// firstLine is a text of the tree, as it may be sent.
func firstLine(text string) string { return shortened(plain.FirstLine(shortened(text, 4<<10)), 300) }

// itemID is the same for the same news.
func itemID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

func sortItems(items []owing) {
	slices.SortStableFunc(items, func(a, b owing) int {
		if c := a.item.At.Compare(b.item.At); c != 0 {
			return c
		}
		return strings.Compare(a.item.Job, b.item.Job)
	})
}
