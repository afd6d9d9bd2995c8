package txnaudit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ledger"
)

// Report is the result of an audit. Its JSON names are a contract, as package admin's are.
type Report struct {
	Group string `json:"group"` // the path of the group's node
	OK    bool   `json:"ok"`    // no violation was found, and ZooKeeper has lost nothing

	First Point `json:"first"` // transaction that was judged
	Last  Point `json:"last"`
	// Baseline is the snapshot that the audit started from; empty if it began with an empty tree, or
	// with the nodes that the log shows.
	Baseline string `json:"baseline,omitempty"`
	// Whole is false if the tree's content was not known at first, or after a gap: then some writes
	// were not judged.
	Whole bool `json:"whole"`

	Counts   Counts    `json:"counts"`
	Promises []Promise `json:"promises"`
	// Losses are where ZooKeeper continued without transactions that are in the log, up to
	// MaxViolations. No rule is judged to be broken by that: the next write of a record is judged by
	// the version of it that ZooKeeper had left.
	Losses []Loss `json:"losses"`
	// Violations are the first that were found, up to MaxViolations, in order.
	Violations []Violation `json:"violations"`
	// Around has the transactions around the first violation that concern the same job, and instances
	// that came and went.
	Around []Write  `json:"around"`
	Notes  []string `json:"notes"` // what else there is to know: gaps, torn records, what could not be judged
}

// Loss is a number of transactions that the ensemble has lost. If the files come from one server
// only, it may also be one that the ensemble never had.
type Loss struct {
	First        Hex   `json:"first"`
	Last         Hex   `json:"last"`
	Transactions int   `json:"transactions"` // of which writes are known to be gone, or, if they came back, all
	Shown        Point `json:"shown"`        // the first transaction that shows it
	Back         bool  `json:"back"`         // other servers had continued without them, and here they are back
}

// MaxViolations is how many violations a report has.
const MaxViolations = 100

// Hex is a zxid or a session ID. As text it is hexadecimal, as ZooKeeper prints it: JSON numbers
// lose digits.
type Hex int64

func (h Hex) String() string { return fmt.Sprintf("%#x", uint64(h)) }

// MarshalText implements encoding.TextMarshaler.
func (h Hex) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	*h = Hex(n)
	return err
}

// Point is a moment in the log.
type Point struct {
	Zxid Hex       `json:"zxid"`
	Time time.Time `json:"time"` // by the clock of the server that led then
}

// Counts is how much was judged.
type Counts struct {
	Transactions int `json:"transactions"`  // of the whole ensemble
	Claims       int `json:"claims"`        // of scheduled ticks
	ManualRuns   int `json:"manual_runs"`   // claims of requests
	Attempts     int `json:"attempts"`      // further attempts
	Results      int `json:"results"`       // runs that have ended
	Ticks        int `json:"ticks"`         // accounted for: claimed, or recorded as not run
	OwnerChanges int `json:"owner_changes"` // times that an instance became the owner of a job, or shard
	Takeovers    int `json:"takeovers"`     // those from another instance
	Relieved     int `json:"relieved"`      // among these, from one that may have been alive, and had not claimed a run in time
	Layouts      int `json:"layouts"`       // changes of a number of shards
	Complete     int `json:"complete"`      // records of ticks that all shards were done with
	Unjudged     int `json:"unjudged"`      // writes that cannot be judged without what was before
	Unreadable   int `json:"unreadable"`    // records written that cannot be read
}

// Promise is a rule, and how often it was broken.
type Promise struct {
	Rule       string `json:"rule"` // "owner", "claim", "claimant", "token", "account", "shards" or "limit"
	Text       string `json:"text"`
	Violations int    `json:"violations"`
}

// Violation is a transaction that breaks a rule.
type Violation struct {
	Rule    string    `json:"rule"`
	Job     string    `json:"job"` // or the shard, such as "report[3]"
	Zxid    Hex       `json:"zxid"`
	Session Hex       `json:"session"`
	Time    time.Time `json:"time"`
	Text    string    `json:"text"`
}

// Write is one operation of a transaction.
type Write struct {
	Zxid    Hex       `json:"zxid"`
	Session Hex       `json:"session"`
	Time    time.Time `json:"time"`
	Op      string    `json:"op"` // "create", "set", "delete" or "check"
	Path    string    `json:"path"`
	Data    string    `json:"data,omitempty"` // its beginning
}

// promises describes each rule's promise.
var promises = map[ledger.Rule]string{
	ledger.Owner:    "every change of owner is legal",
	ledger.Claim:    "no tick is claimed twice",
	ledger.Claimant: "only its owner claims a tick",
	ledger.Token:    "fencing tokens grow",
	ledger.Account:  "every tick is accounted for",
	ledger.Shards:   "a tick has one number of shards",
	ledger.Limit:    "no limit is exceeded",
}

func countsOf(c ledger.Counts) Counts {
	return Counts{
		Transactions: c.Txns, Claims: c.Claims, ManualRuns: c.Manual, Attempts: c.Attempts, Results: c.Results,
		Ticks: c.Ticks, OwnerChanges: c.Owners, Takeovers: c.Takeovers, Relieved: c.Relieved, Layouts: c.Layouts, Complete: c.Complete,
		Unjudged: c.Unjudged, Unreadable: c.Unread,
	}
}

// plus adds up, or, with sign -1, takes away.
func (c Counts) plus(d Counts, sign int) Counts {
	return Counts{
		c.Transactions + sign*d.Transactions, c.Claims + sign*d.Claims, c.ManualRuns + sign*d.ManualRuns,
		c.Attempts + sign*d.Attempts, c.Results + sign*d.Results, c.Ticks + sign*d.Ticks, c.OwnerChanges + sign*d.OwnerChanges,
		c.Takeovers + sign*d.Takeovers, c.Relieved + sign*d.Relieved, c.Layouts + sign*d.Layouts, c.Complete + sign*d.Complete,
		c.Unjudged + sign*d.Unjudged, c.Unreadable + sign*d.Unreadable,
	}
}
