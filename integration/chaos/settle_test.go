package chaos

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/admin"
)

const (
	// settleLimit is how long after the last fault the group may take until everything runs again:
	// sessions expire, clocks that were ahead are caught up with, and the machine may be busy.
	settleLimit = 2 * time.Minute
	// tidyLimit is how long the nodes of killed instances may stay: ten session timeouts and some more
	// per survivor.
	tidyLimit = 3 * time.Minute
)

// A settler waits until the group is as if nothing had happened.
type settler struct {
	t        *testing.T
	operator *operator
	members  []*member
	conn     *zk.Conn // nil before the faults: this client does not come back from servers that know less than it has seen
}

// connect connects to the servers.
func (s *settler) connect(addrs []string) {
	s.t.Helper()
	var err error
	if s.conn, _, err = zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{})); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.conn.Close)
}

// silent is a logger for clients whose server fails on purpose.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}

// await waits until something is as it should be, and returns why it is not if that takes too long.
func (s *settler) await(limit time.Duration, is func(context.Context) error) (took time.Duration, err error) {
	began := Mono()
	for Mono()-began < limit {
		ctx, cancel := context.WithTimeout(s.t.Context(), operatorLimit)
		err = is(ctx)
		cancel()
		if err == nil {
			return Mono() - began, nil
		}
		<-time.After(500 * time.Millisecond)
	}
	return 0, fmt.Errorf("not after %v: %w", limit, err)
}

// works reports whether every slot has an owner that lives and has run since a time, shares are
// even, and nothing is overdue or half done.
func (s *settler) works(ctx context.Context, since time.Duration) error {
	live, err := s.operator.client.Instances(ctx)
	if err != nil {
		return err
	}
	jobs, err := s.operator.client.List(ctx)
	if err != nil {
		return err
	}
	var slots []admin.JobStatus
	for _, j := range jobs {
		if j.State != admin.StateOwned || j.Resizing != nil || !j.Overdue.IsZero() {
			return fmt.Errorf("%s is %s %s, resizing: %v, overdue: %v", j.Name, j.State, j.Reason, j.Resizing, j.Overdue)
		}
		if len(j.Slots) == 0 {
			slots = append(slots, j)
		}
		slots = append(slots, j.Slots...)
	}
	var shares []int
	for _, i := range live {
		shares = append(shares, i.Owned)
	}
	if len(live) != len(s.members) || slices.Max(shares)-slices.Min(shares) > 1 {
		return fmt.Errorf("%d instances own %v", len(live), shares)
	}
	ran := make(map[string]bool)
	for _, m := range s.members {
		lines, err := ReadLedger(m.now.Ledger)
		if err != nil {
			return err
		}
		for _, line := range lines {
			ran[line.Job] = ran[line.Job] || line.Event == Start && line.Mono > since
		}
	}
	for _, slot := range slots {
		if !ran[slot.Name] {
			return fmt.Errorf("%s has not run", slot.Name)
		}
	}
	return nil
}

// leftovers looks for nodes of instances other than those that live.
func (s *settler) leftovers(live []string) error {
	const root = "/" + groupName
	var found []string
	children := func(at string) []string {
		names, _, err := s.conn.Children(at)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			found = append(found, err.Error())
		}
		return names
	}
	stray := func(at string, may []string) {
		for _, name := range children(at) {
			if !slices.Contains(may, name) {
				found = append(found, path.Join(at, name))
			}
		}
	}
	stray(root+"/_instances", live)
	stray(root+"/_disabled", nil)
	for _, name := range children(root) {
		at := path.Join(root, name)
		if strings.HasPrefix(name, "_") {
			continue
		}
		if data, _, err := s.conn.Get(at); err != nil || len(data) == 0 {
			found = append(found, fmt.Sprintf("%s (no job: %v)", at, err))
		}
		stray(at+"/register", live)
		for _, slot := range append([]string{at}, below(at+"/shards", children(at+"/shards"))...) {
			owner, _, err := s.conn.Get(slot + "/alive")
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				found = append(found, err.Error())
			}
			stray(slot+"/alive", slices.DeleteFunc(slices.Clone(live), func(sid string) bool {
				return !strings.Contains(string(owner), `"`+sid+`"`)
			}))
			stray(slot+"/requests", nil)
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("left over: %s", strings.Join(found, ", "))
	}
	return nil
}

func below(parent string, names []string) (paths []string) {
	for _, name := range names {
		paths = append(paths, path.Join(parent, name))
	}
	return paths
}

// ids are the running processes'.
func (s *settler) ids() (live []string) {
	for _, m := range s.members {
		if m.now.running() {
			live = append(live, m.now.ID)
		}
	}
	return live
}

// settle waits until the group works and is tidy, then stops it cleanly. It returns the faults.
func (s *settler) settle(healed time.Duration) (took time.Duration, wrong []string) {
	report := func(what string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", what, err))
		}
	}
	took, err := s.await(settleLimit, func(ctx context.Context) error { return s.works(ctx, healed) })
	report("the group does not settle", err)
	_, err = s.await(tidyLimit, func(context.Context) error { return s.leftovers(s.ids()) })
	report("the tree does not get tidy", err)
	for _, m := range s.members {
		m.terminate(stop)
	}
	for _, m := range s.members {
		clean, err := m.awaitEnd(stopLimit)
		report(m.now.ID+" does not stop cleanly", err)
		if !clean {
			wrong = append(wrong, fmt.Sprintf("%s does not stop within %v", m.now.ID, stopLimit))
		}
	}
	report("after all have stopped", s.leftovers(nil))
	return took, wrong
}
