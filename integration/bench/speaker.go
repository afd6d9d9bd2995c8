package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Words that a process reads on its standard input, one a line. At the end of the input it stops.
const (
	wordGo    = "go"    // begin
	wordTell  = "tell"  // answer with a report
	wordWeigh = "weigh" // likewise, after a collection of garbage
)

// Words that it writes on its standard output, one a line.
const (
	wordReady  = "ready"  // it waits for go
	wordOwned  = "owned"  // and the number of slots that it owns, which has changed
	wordReport = "report" // and a Report as JSON
)

// Speaker is a process's side of the conversation with the test. Safe for concurrent use.
type Speaker struct {
	Begin chan struct{} // closed when it is to begin

	changed chan struct{} // owned has changed; buffers one signal

	mu    sync.Mutex // guards what follows, and orders lines
	out   io.Writer
	owned int
}

// NewSpeaker returns a Speaker that writes to out.
func NewSpeaker(out io.Writer) *Speaker {
	return &Speaker{Begin: make(chan struct{}), changed: make(chan struct{}, 1), out: out}
}

func (s *Speaker) say(word string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, word, value)
}

// Listen says that the process is ready, and obeys until the input ends. Its reports come from the
// function.
func (s *Speaker) Listen(in io.Reader, report func() Report) {
	s.say(wordReady, "")
	begin := sync.OnceFunc(func() { close(s.Begin) })
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch word := lines.Text(); word {
		case wordGo:
			begin()
		case wordTell, wordWeigh:
			r := report()
			if word == wordWeigh {
				r.weigh()
			}
			text, err := json.Marshal(r)
			if err != nil {
				panic(err) // it is all numbers and names
			}
			s.say(wordReport, string(text))
		}
	}
}

// Count changes the number of slots that the process owns.
func (s *Speaker) Count(change int) {
	s.mu.Lock()
	s.owned += change
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// TellOwned tells how many slots it owns when that has changed, until ctx ends; not each number if
// they change faster than it can tell them.
func (s *Speaker) TellOwned(ctx context.Context) {
	for {
		select {
		case <-s.changed:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		n := s.owned
		s.mu.Unlock()
		s.say(wordOwned, n)
	}
}
