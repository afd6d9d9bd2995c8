package task_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// A mailbox does not hold closures that it has run, however long the rest of the posts waits.
func TestMailboxHoldsNothingThatWasRun(t *testing.T) {
	t.Parallel()
	box := task.NewMailbox()
	value := new([64]byte)
	held := weak.Make(value)
	box.Post(func() { value[0] = 1 })
	box.Post(func() {})
	box.RunFor(0) // the first only
	runtime.GC()
	if held.Value() != nil {
		t.Error("a post that was run is held")
	}
	box.Run()
}
