package record

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// events are the recorded events.
type events struct {
	instances []string          // as first started
	periods   map[string]Millis // of each job
	canceled  map[string]span   // swctl cancel, from its start to its end
	at        map[string]Millis // of each of steps
	sid       map[string]string // the instance of a kill, join or stop
	shares    []string          // each time they had evened out ...
	evened    []Millis          // ... and when
}

type span struct{ from, to Millis }

// steps are the events that happen once.
var steps = []string{"settled", "kill", "join", "stop", "quit"}

// readEvents reads one event per line: Unix milliseconds, a word, and its
// arguments.
//
//	T instance SID         an instance was started
//	T job NAME PERIOD      a job was submitted that is due whenever the time is a
//	                       multiple of PERIOD ms
//	T settled              all jobs are owned: from now on every tick counts
//	T shares 3-3-3         the number of jobs per instance is even
//	T kill SID             an instance is killed ...
//	T join SID             ... and started again
//	T stop SID             an instance is told to stop
//	T cancel NAME          a job is about to be canceled ...
//	T canceled NAME        ... and is canceled
//	T quit                 all instances are told to stop: no later tick counts
func readEvents(text string) (events, error) {
	e := events{
		periods: make(map[string]Millis), canceled: make(map[string]span),
		at: make(map[string]Millis), sid: make(map[string]string),
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

func (e *events) add(at Millis, word string, args []string) (err error) {
	arg := strings.Join(args[:min(1, len(args))], "")
	switch {
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

func number(text string) (Millis, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n <= 0 {
		err = fmt.Errorf("want a positive number, got %d", n)
	}
	return Millis(n), err
}
