package commands

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// reply is one run of a command, which answers it with documents for programs, or text for people.
// Its times count from the group's, once there is a connection.
type reply struct {
	*cmdline.Call

	clock  func() (now time.Time, ahead time.Duration, own bool) // of the group
	old    func() (sign time.Time, stale bool)                   // as Client.Stale
	own    bool                                                  // what was printed has times of this machine's
	warned bool                                                  // of that one
}

// alone is the Run of a command that asks no group.
func alone(do func(context.Context, *reply) error) func(context.Context, *cmdline.Call) error {
	return func(ctx context.Context, c *cmdline.Call) error { return do(ctx, &reply{Call: c}) }
}

// now is the group's time once there is a connection, and until then this machine's.
func (r *reply) now() time.Time {
	if r.clock == nil {
		return r.Now()
	}
	now, _, own := r.clock()
	r.own = own
	return now
}

// clocked says once, after the output, that this machine's clock is wrong, or that judgments were
// made by it. Who submits or changes the first jobs need not hear that no instance lives yet.
func (r *reply) clocked(err error) error {
	if r.clock != nil && !r.JSON && !r.warned {
		_, ahead, _ := r.clock()
		own := r.own && slices.Contains([]string{"list", "show", "why", "next", "history"}, r.Command)
		if text := words.Clock("this machine's clock", ahead, own); text != "" {
			r.warned = true
			r.Notef("%s", text)
		}
	}
	return err
}

// stale is the mark of an answer by a server without a quorum, or nil.
func (r *reply) stale() *api.Stale {
	if r.old == nil {
		return nil
	}
	sign, stale := r.old()
	if !stale {
		return nil
	}
	return &api.Stale{LastSign: sign}
}

// staled says before the output, or with an error for programs, that a server without a quorum has
// answered.
func (r *reply) staled(err error) error {
	mark := r.stale()
	if mark == nil {
		return err
	}
	text := "STALE: answered by a server that has no quorum, with what was true when that was lost"
	if sign := mark.LastSign; !sign.IsZero() {
		text += fmt.Sprintf("; the last sign of life of an instance in it is of %s, %s", plain.Absolute(sign, time.UTC), plain.Relative(sign, r.now()))
	}
	switch {
	case r.JSON && err != nil:
		return fmt.Errorf("%w; %s", err, text)
	case !r.JSON || r.Format == cmdline.FormatName: // other documents have the mark
		r.Sayf("%s", text)
	}
	return err
}

// page is the output for people.
func (r *reply) page() render.Page {
	columns, _, colors := r.Screen()
	return render.Page{Clock: render.Clock{Now: r.now(), Times: r.Times}, Out: &r.Out, Columns: columns, Color: colors, Wide: r.Wide}
}

// put prints a document under -o json, and what people makes of it otherwise.
func (r *reply) put(document any, people func(render.Page)) error {
	if r.JSON {
		if of, marked := document.(api.Document); marked {
			of.Stale = r.stale()
			document = of
		}
		return r.PutJSON(document)
	}
	people(r.page())
	return nil
}

// putList puts a document, or the table of its list, and below that a remark if the list is empty.
func putList[T any](r *reply, document any, list []T, table func(render.Page, []T), none string, args ...any) error {
	return r.put(document, func(p render.Page) {
		table(p, list)
		if len(list) == 0 {
			r.Notef(none, args...)
		}
	})
}

// tell is put for a command that keeps running: it prints at once.
func (r *reply) tell(document any, people func(render.Page)) error {
	err := r.put(document, people)
	if err == nil {
		err = r.Flush()
	}
	return err
}

// remarks is a slog.Handler that writes lines of swctl.
type remarks struct{ *cmdline.Call }

// Enabled implements slog.Handler.
func (remarks) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (r remarks) Handle(_ context.Context, record slog.Record) error {
	words := []string{record.Message}
	record.Attrs(func(a slog.Attr) bool {
		text := a.Value.String()
		if a.Value.Kind() == slog.KindTime {
			text = a.Value.Time().UTC().Format(time.RFC3339)
		}
		words = append(words, a.Key+"="+strconv.Quote(text))
		return true
	})
	r.Remark(strings.Join(words, " "))
	return nil
}

// WithAttrs implements slog.Handler. Nobody sets any.
func (r remarks) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup implements slog.Handler. Nobody opens one.
func (r remarks) WithGroup(string) slog.Handler { return r }
