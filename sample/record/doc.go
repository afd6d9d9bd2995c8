// Package record reads the record of a demonstration and checks that every tick ran once, on one
// instance at a time. It knows nothing about ZooKeeper and runs nothing. A record is a directory:
//
//	ledger            one [Run] per line, as JSON, of all instances (see package instance)
//	events            the events of the demonstration, and when (see readEvents)
//	before-kill.json  the owner of each job just before and after an instance was
//	after-kill.json   killed, and just before and after one was stopped
//	before-stop.json
//	after-stop.json
//
// The due ticks are computed here from the job's period, independently of the library.
package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Millis is a time in Unix milliseconds, or a duration in milliseconds.
type Millis int64

// String is the time of day, in UTC.
func (m Millis) String() string { return time.UnixMilli(int64(m)).UTC().Format("15:04:05.000") }

// Run is a line of the ledger. Times are by the instance's clock.
type Run struct {
	Job     string `json:"job"`
	Tick    Millis `json:"tick"`  // the scheduled time
	SID     string `json:"sid"`   // the instance
	Token   int64  `json:"token"` // the fencing token
	Attempt int    `json:"attempt"`
	Start   Millis `json:"start"`
	End     Millis `json:"end"`
	Outcome string `json:"outcome"` // ok, failed or interrupted
}

// Dir is the directory of a record.
type Dir string

// Ledger returns the file that instances append their runs to.
func (d Dir) Ledger() string { return d.path("ledger") }

// Event records an event at the current time. words are from a line of readEvents.
func (d Dir) Event(words ...string) error {
	line := fmt.Sprintf("%d %s\n", time.Now().UnixMilli(), strings.Join(words, " "))
	file, err := os.OpenFile(d.path("events"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// SaveOwners records the owner of each job. when is before-kill, after-kill, before-stop or
// after-stop.
func (d Dir) SaveOwners(when string, owners Owners) error {
	text, err := json.Marshal(owners)
	if err != nil {
		return err
	}
	return os.WriteFile(d.path(when+".json"), text, 0o600)
}

// CountRuns returns the number of runs in the ledger.
func (d Dir) CountRuns() (int, error) {
	text, err := os.ReadFile(d.Ledger())
	if os.IsNotExist(err) {
		return 0, nil // no instance has opened it yet
	}
	return bytes.Count(text, []byte("\n")), err
}

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// demo is the contents of a record.
type demo struct {
	dir    Dir
	runs   map[string][]Run // by job, in the order in which they started
	events events
}

func (d Dir) read() (*demo, error) {
	text, err := os.ReadFile(d.path("events"))
	if err != nil {
		return nil, err
	}
	all := &demo{dir: d, runs: make(map[string][]Run)}
	if all.events, err = readEvents(string(text)); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	ledger, err := os.ReadFile(d.Ledger())
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range bytes.Lines(ledger) {
		number++
		var r Run
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("ledger: line %d: %w", number, err)
		}
		all.runs[r.Job] = append(all.runs[r.Job], r)
	}
	for _, runs := range all.runs {
		slices.SortStableFunc(runs, func(a, b Run) int { return int(a.Start - b.Start) })
	}
	return all, nil
}
