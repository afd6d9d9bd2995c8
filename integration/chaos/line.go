package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// A Line is one event in the life of an instance's process, in a file that only this process
// writes.
type Line struct {
	Event Event `json:"event"`
	// Mono is the machine's monotonic clock, which all processes share and no fault changes: see Mono.
	Mono time.Duration `json:"mono"`
	// Wall is the process's wall clock, which may be off, in Unix milliseconds.
	Wall int64 `json:"wall"`

	Job     string `json:"job,omitempty"` // or shard: "rows[3]"
	Shards  int    `json:"shards,omitempty"`
	Tick    int64  `json:"tick,omitempty"` // in Unix milliseconds
	Manual  bool   `json:"manual,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Token   int64  `json:"token,omitempty"`
	Run     string `json:"run,omitempty"`
	// Cause is why the run's context had ended, or how Manager.Run returned; empty if all was well.
	Cause string        `json:"cause,omitempty"`
	Gap   time.Duration `json:"gap,omitempty"` // of Stalled
}

// Event is the kind of a line.
type Event string

// The events.
const (
	Up       Event = "up"       // the process has started
	Owned    Event = "owned"    // Hooks.OnOwned
	Released Event = "released" // Hooks.OnReleased
	Start    Event = "start"    // a handler was called
	End      Event = "end"      // it is about to return
	Missed   Event = "missed"   // Hooks.OnTickMissed
	Stalled  Event = "stalled"  // the process did not run for Gap, up to now
	Down     Event = "down"     // Manager.Run has returned
)

// Divided are the jobs with shards, of which there may be one: a handler cannot tell that from a
// job that is not divided.
var Divided = []string{"rows", "rows-queue"}

// SlotName is the name of a job, or of one of its shards.
func SlotName(name string, shard, total int) string {
	if total == 1 && !slices.Contains(Divided, name) {
		return name
	}
	return job.ShardName(name, shard)
}

// A Ledger is the file of one process. Safe for concurrent use.
type Ledger struct{ file *os.File }

// OpenLedger opens the file, or creates it.
func OpenLedger(path string) (*Ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Ledger{file}, nil
}

// Write appends a line, in one write: written lines stay when the process is killed. It panics if
// that fails, because a process without evidence must not run.
func (l *Ledger) Write(line Line) {
	line.Mono, line.Wall = Mono(), time.Now().UnixMilli()
	text, err := json.Marshal(line)
	if err == nil {
		_, err = l.file.Write(append(text, '\n'))
	}
	if err != nil {
		panic(fmt.Errorf("ledger: %w", err))
	}
}

// ReadLedger returns the lines of a file. One that the process was killed over is left out.
func ReadLedger(path string) ([]Line, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for one := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		var line Line
		if err := json.Unmarshal(one, &line); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, one, err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}
