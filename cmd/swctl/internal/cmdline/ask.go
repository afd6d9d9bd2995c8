package cmdline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Ask puts a question to the person at the terminal and waits for the answer;
// only the end of ctx (an interrupt) ends the waiting.
func (a *App) Ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(a.Stderr, question)
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	// A read from a terminal cannot be called off: when ctx ends first, this
	// goroutine lives until the process ends, which is at once.
	go func() {
		text, err := bufio.NewReader(a.Stdin).ReadString('\n')
		answers <- answer{text, err}
	}()
	select {
	case got := <-answers:
		if got.err != nil && !errors.Is(got.err, io.EOF) {
			return "", fmt.Errorf("read the answer: %w", got.err)
		}
		if got.err != nil {
			fmt.Fprintln(a.Stderr) // the end of input leaves the cursor behind the question
		}
		return strings.TrimSpace(got.text), nil
	case <-ctx.Done():
		fmt.Fprintln(a.Stderr)
		return "", context.Cause(ctx)
	}
}

// Question asks whether to do something.
type Question struct {
	Text    string
	Answers []string // those that mean yes; default y and yes
	Nothing string   // what was not done after another answer: "nothing was canceled"
}

// Confirm asks a question and returns ErrUnconfirmed unless the answer means yes.
func (c *Call) Confirm(ctx context.Context, q Question) error {
	if len(q.Answers) == 0 {
		q.Answers = []string{"y", "yes"}
	}
	answer, err := c.Ask(ctx, q.Text)
	if err == nil && !slices.Contains(q.Answers, strings.ToLower(answer)) {
		err = fmt.Errorf("%s: %w, %s", c.Command, ErrUnconfirmed, q.Nothing)
	}
	return err
}
