package txnaudit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

// follower audits a log that a test writes meanwhile.
type follower struct {
	t      *testing.T
	dir    string
	counts chan txnaudit.Counts
	ended  chan txnaudit.Report
}

func follow(t *testing.T, ctx context.Context, dir string) *follower { //nolint:revive // as t.Helper's
	t.Helper()
	f := &follower{t, dir, make(chan txnaudit.Counts), make(chan txnaudit.Report)}
	opts := options(dir)
	opts.Follow = true
	opts.CaughtUp = func(_ txnaudit.Point, counts txnaudit.Counts) { f.counts <- counts }
	go func() {
		defer close(f.ended)
		report, err := txnaudit.Run(ctx, opts)
		if err != nil {
			t.Error(err)
		}
		f.ended <- report
	}()
	return f
}

// claims waits until so many claims are judged.
func (f *follower) claims(want int) {
	f.t.Helper()
	for range 10 {
		select {
		case counts := <-f.counts:
			if counts.Claims == want {
				return
			}
		case r := <-f.ended:
			f.t.Fatalf("ended, before %d claims were judged: %+v", want, r)
		}
	}
	f.t.Fatalf("%d claims are never judged", want)
}

// report waits for the end.
func (f *follower) report() txnaudit.Report {
	for {
		select {
		case <-f.counts:
		case r := <-f.ended:
			return r
		}
	}
}

// cut makes a file of the log shorter, or of the length that is given.
func (f *follower) cut(name string, size int64) {
	f.t.Helper()
	if err := os.Truncate(filepath.Join(f.dir, "version-2", name), size); err != nil {
		f.t.Fatal(err)
	}
}

// TestFollow: a log is judged as it grows, over a record that is half written, a next file, and
// transactions that the server cuts off.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, txns := t.TempDir(), story(9)
		first := func(runs int) []txn { return txns[:5+2*runs] }
		write(t, dir, first(3)...)
		f := follow(t, t.Context(), dir)
		f.claims(3)
		write(t, dir, first(5)...)
		f.claims(5)

		whole, err := os.Stat(filepath.Join(dir, "version-2", "log.1"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, first(6)...)
		f.cut("log.1", whole.Size()-1<<10+100) // the preallocated bytes are 1 KB: within the record of the sixth claim
		f.claims(5)
		write(t, dir, first(6)...)
		f.claims(6)

		write(t, dir, txns[len(first(6)):len(first(7))]...)
		f.claims(7)
		if err := os.Remove(filepath.Join(dir, "version-2", "log.12")); err != nil {
			t.Fatal(err)
		}
		f.claims(6)
		write(t, dir, first(4)...)
		f.claims(4)
		write(t, dir, append(slices.Clone(txns), forged(9))...)
		r := f.report()
		if r.OK || len(r.Violations) == 0 || r.Violations[0].Zxid != 24 || len(r.Around) == 0 || r.Counts.Claims < 9 ||
			!strings.Contains(strings.Join(r.Notes, " "), "cut off transactions 2 times") {
			t.Errorf("%+v", r)
		}
	})
}

// TestFollowEnds: an audit ends with its context, and reports all until then.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, story(3)...)
		ctx, cancel := context.WithCancel(t.Context())
		f := follow(t, ctx, dir)
		f.claims(3)
		cancel()
		if r := f.report(); !r.OK || r.Counts.Claims != 3 || r.Last.Zxid != 11 {
			t.Errorf("%+v", r)
		}
	})
	one, two := t.TempDir(), t.TempDir()
	write(t, one, story(3)...)
	write(t, two, story(3)...)
	opts := options(one, two)
	opts.Follow = true
	if _, err := txnaudit.Run(t.Context(), opts); !errors.Is(err, txnaudit.ErrServers) {
		t.Errorf("two servers: %v", err)
	}
}
