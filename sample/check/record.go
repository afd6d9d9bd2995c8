package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// millis is a time in Unix milliseconds, or a number of them: what the ledger and the
// events are written in.
type millis int64

func (m millis) String() string { return time.UnixMilli(int64(m)).UTC().Format("15:04:05.000") }

// oneRun is a line of the ledger.
type oneRun struct {
	Job     string `json:"job"`
	Tick    millis `json:"tick"`
	SID     string `json:"sid"`
	Token   int64  `json:"token"`
	Attempt int    `json:"attempt"`
	Start   millis `json:"start"`
	End     millis `json:"end"`
	Outcome string `json:"outcome"`
}

// demo is all that a directory says.
type demo struct {
	dir    string
	runs   map[string][]oneRun // by job, in the order of their starts
	events events
}

func readDemo(dir string) (*demo, error) {
	d := &demo{dir: dir, runs: make(map[string][]oneRun)}
	text, err := readFile(dir, "events")
	if err != nil {
		return nil, err
	}
	if d.events, err = readEvents(string(text)); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	ledger, err := readFile(dir, "ledger")
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range bytes.Lines(ledger) {
		number++
		var r oneRun
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("ledger: line %d: %w", number, err)
		}
		d.runs[r.Job] = append(d.runs[r.Job], r)
	}
	for _, runs := range d.runs {
		slices.SortStableFunc(runs, func(a, b oneRun) int { return int(a.Start - b.Start) })
	}
	return d, nil
}

// events is what was done, and when.
type events struct {
	session    millis            // the session timeout
	serverTick millis            // by which the server may be late to end a session
	instances  []string          // as first started
	periods    map[string]millis // of each job
	canceled   map[string]span   // swctl cancel, from its start to its end
	at         map[string]millis // of each of steps
	sid        map[string]string // whom a kill, join or stop was for
	shares     []string          // each time they had evened out ...
	evened     []millis          // ... and when
}

type span struct{ from, to millis }

// steps are the events that happen once.
var steps = []string{"settled", "kill", "join", "stop", "quit"}

// readEvents reads one event a line: Unix milliseconds, a word, and what it is
// about.
//
//	T config SESSION TICK  the session timeout and the server's tick, in ms
//	T instance SID         an instance was started
//	T job NAME PERIOD      a job was submitted that is due when the time in ms is a
//	                       multiple of PERIOD
//	T settled              all jobs are owned: from here on every tick counts
//	T shares 3-3-3         the jobs that each instance owns have evened out
//	T kill SID             an instance is killed ...
//	T join SID             ... and started again
//	T stop SID             an instance is told to stop
//	T cancel NAME          a job is about to be cancelled ...
//	T canceled NAME        ... and is
//	T quit                 all are told to stop: no later tick counts
func readEvents(text string) (events, error) {
	e := events{
		periods: make(map[string]millis), canceled: make(map[string]span),
		at: make(map[string]millis), sid: make(map[string]string),
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			return events{}, fmt.Errorf("%q: want a time and a word", line)
		}
		at, err := number(words[0])
		if err == nil {
			err = e.add(at, words[1], words[2:])
		}
		if err != nil {
			return events{}, fmt.Errorf("%q: %w", line, err)
		}
	}
	return e, nil
}

func (e *events) add(at millis, word string, args []string) (err error) {
	arg := strings.Join(args[:min(1, len(args))], "")
	switch {
	case word == "config" && len(args) == 2:
		if e.session, err = number(args[0]); err == nil {
			e.serverTick, err = number(args[1])
		}
	case word == "instance" && arg != "":
		e.instances = append(e.instances, arg)
	case word == "job" && len(args) == 2:
		e.periods[arg], err = number(args[1])
	case word == "shares" && arg != "":
		e.shares, e.evened = append(e.shares, arg), append(e.evened, at)
	case word == "cancel" && arg != "":
		e.canceled[arg] = span{from: at}
	case word == "canceled" && arg != "":
		e.canceled[arg] = span{from: e.canceled[arg].from, to: at}
	case slices.Contains(steps, word):
		e.at[word], e.sid[word] = at, arg
	default:
		err = fmt.Errorf("unknown event %q", word)
	}
	return err
}

func number(text string) (millis, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n <= 0 {
		err = fmt.Errorf("want a positive number, got %d", n)
	}
	return millis(n), err
}

// readFile reads what the command line names.
func readFile(elem ...string) ([]byte, error) {
	return os.ReadFile(filepath.Join(elem...)) //nolint:gosec // whoever calls may read it
}

// owner is who owns a job, since when by ZooKeeper's clock; nobody when SID is
// empty.
type owner struct {
	SID   string
	Since millis
}

// readOwners reads the output of swctl list -o json.
func readOwners(path string) (map[string]owner, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Name  string `json:"name"`
			State string `json:"state"`
			Owner struct {
				InstanceID string    `json:"instance_id"`
				Since      time.Time `json:"since"`
			} `json:"owner"`
		} `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	owners := make(map[string]owner, len(list.Items))
	for _, item := range list.Items {
		if item.State != "owned" { // an owner that is gone is none
			owners[item.Name] = owner{}
			continue
		}
		owners[item.Name] = owner{SID: item.Owner.InstanceID, Since: millis(item.Owner.Since.UnixMilli())}
	}
	return owners, nil
}

// countOwned counts the jobs of each instance.
func countOwned(owners map[string]owner) map[string]int {
	counts := make(map[string]int)
	for _, o := range owners {
		if o.SID != "" {
			counts[o.SID]++
		}
	}
	return counts
}
