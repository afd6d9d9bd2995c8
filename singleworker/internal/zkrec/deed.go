package zkrec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxDeedBytes is the longest record of a deed.
const MaxDeedBytes = 300

// MaxDeeds is how many changes are kept, how many asks, and how many declarations.
const MaxDeeds = 2000

// The kinds of deeds. Those that ask something of a job's owner are kept apart, and so are the
// declarations of programs. A script that triggers each second does not wash out who canceled a
// job, and neither does a deploy of thousands of jobs.
const (
	DeedSubmit   = "submit"
	DeedReplace  = "replace"
	DeedSet      = "set"
	DeedRollback = "rollback"
	DeedPause    = "pause"
	DeedResume   = "resume"
	DeedCancel   = "cancel"
	DeedUndelete = "undelete"
	DeedClear    = "clear"
	DeedRepair   = "repair"
	DeedDrain    = "drain"
	DeedDisable  = "disable"
	DeedEnable   = "enable"
	DeedRoles    = "acl"
	DeedFreeze   = "freeze"
	DeedUnfreeze = "unfreeze"
	DeedCalendar = "set-calendar" // its name is Where
	DeedTrigger  = "trigger"      // an ask
	DeedBackfill = "backfill"     // an ask
	DeedStop     = "stop-run"     // an ask
	DeedWithdraw = "withdraw"     // an ask: a request is canceled
	DeedDeclare  = "declare"      // a declaration: of a program, of a job that was another one
	// DeedDeleteCalendar is of a calendar, too, and the others are of a limit.
	DeedDeleteCalendar = "delete-calendar"
	DeedLimit          = "set-limit"
	DeedDeleteLimit    = "delete-limit"
	DeedFree           = "free-places" // that no run has

	DeedOutage = "outage" // nobody's deed: ZooKeeper did not answer the instance From since Since until Until
)

// Deed is who has done what: the data of a sequential node below _log, which the transaction that
// does it creates. When that was is the node's time of creation.
type Deed struct {
	Schema int      `json:"schema"`
	Kind   string   `json:"kind"`
	Jobs   []string `json:"jobs,omitempty"` // the first few
	More   int      `json:"more,omitempty"` // how many jobs there are beside those
	Where  string   `json:"where,omitempty"`
	By     string   `json:"by,omitempty"` // empty if it is From
	From   string   `json:"from,omitempty"`
	Reason string   `json:"reason,omitempty"`

	Since int64 `json:"since,omitempty"` // of an outage, in Unix milliseconds by the clock of From
	Until int64 `json:"until,omitempty"` // likewise
}

// Deeds is the parent of the log of who did what.
func (t Tree) Deeds() string { return t.root + "/" + logNode }

// The first letter of the name of a deed's node: deeds with the same letter are kept together.
const (
	changeLetter  = "c"
	askLetter     = "a"
	declareLetter = "d"
	OutageLetter  = "o"
)

// NewDeed is the beginning of a deed's path, before the number that ZooKeeper gives it.
func (t Tree) NewDeed(d Deed) string {
	letter := changeLetter
	switch d.Kind {
	case DeedTrigger, DeedBackfill, DeedStop, DeedWithdraw:
		letter = askLetter
	case DeedDeclare:
		letter = declareLetter
	case DeedOutage:
		letter = OutageLetter
	}
	return t.Deeds() + "/" + letter
}

// ParseDeedName reads the name of the node of a deed. Numbers grow, over all letters alike. ok is
// false for a node that was made manually.
func ParseDeedName(name string) (letter string, number int64, ok bool) {
	if name == "" {
		return "", 0, false
	}
	switch letter = name[:1]; letter {
	case changeLetter, askLetter, declareLetter, OutageLetter:
		number, err := strconv.ParseInt(name[1:], 10, 32) // as ZooKeeper counts
		return letter, number, err == nil
	}
	return "", 0, false
}

// Encode returns the node's data: printable lines, and shorter than they were if they do not fit.
func (d Deed) Encode() []byte {
	const few = 3
	d.Schema = Schema
	texts := []*string{&d.Reason, &d.From, &d.By, &d.Where} // the first is cut first
	for _, text := range texts {
		*text = strings.Map(printable, strings.ToValidUTF8(*text, "?"))
	}
	if d.By == d.From {
		d.By = ""
	}
	for {
		data := mustJSON(d)
		over := len(data) - MaxDeedBytes
		switch {
		case len(d.Jobs) > few || over > 0 && len(d.Jobs) > 1:
			d.Jobs = d.Jobs[:len(d.Jobs)-1]
			d.More++
		case over <= 0:
			return data
		case shorten(texts, over):
		default: // a name of many characters that JSON escapes
			d.Jobs, d.More = nil, d.More+len(d.Jobs)
		}
	}
}

// printable replaces what would not stand in one line.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// shorten cuts the first of the texts that is not short by so many bytes, or to a short length. It
// returns whether one was.
func shorten(texts []*string, over int) bool {
	const short, dots = 16, "..."
	for _, text := range texts {
		if len(*text) <= short {
			continue
		}
		end := max(len(*text)-over, short) - len(dots)
		for !utf8.RuneStart((*text)[end]) {
			end--
		}
		*text = (*text)[:end] + dots
		return true
	}
	return false
}

// ParseDeed reads the node of a deed.
func ParseDeed(data []byte) (Deed, error) {
	var d Deed
	if err := parsed("log entry", data, json.Unmarshal(data, &d), &d.Schema); err != nil {
		return Deed{}, err
	}
	if err := cmp.Or(CheckTime(d.Since), CheckTime(d.Until)); err != nil {
		return Deed{}, fmt.Errorf("log entry: %w", err)
	}
	if d.By == "" {
		d.By = d.From
	}
	return d, nil
}
