package task_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

func TestMailboxKeepsTheOrder(t *testing.T) {
	t.Parallel()
	box := task.NewMailbox()
	var got []int
	for i := range 5 {
		box.Post(func() { got = append(got, i) })
	}
	if len(got) != 0 {
		t.Fatalf("Post ran %v itself", got)
	}
	<-box.Ready()
	box.Run()
	if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("ran %v, want 0 to 4 in order", got)
	}
	box.Run()
	if len(got) != 5 {
		t.Errorf("a second Run ran %v again", got[5:])
	}
}

func TestMailboxMergesWakeUpsOnly(t *testing.T) {
	t.Parallel()
	box := task.NewMailbox()
	ran := 0
	for range 3 {
		box.Post(func() { ran++ })
	}
	<-box.Ready()
	select {
	case <-box.Ready():
		t.Error("three posts woke up twice, want once")
	default:
	}
	if box.Run(); ran != 3 {
		t.Errorf("one wake-up ran %d posts, want all 3", ran)
	}
}

// A post made by a post runs at the next wake-up, so that Run always ends.
func TestPostsMadeWhileRunningWaitForTheNextRun(t *testing.T) {
	t.Parallel()
	box := task.NewMailbox()
	var got []string
	box.Post(func() {
		got = append(got, "first")
		box.Post(func() { got = append(got, "follower") })
	})
	box.Post(func() { got = append(got, "second") })
	<-box.Ready()
	box.Run()
	if want := []string{"first", "second"}; !slices.Equal(got, want) {
		t.Fatalf("the first Run ran %v, want %v", got, want)
	}
	<-box.Ready() // the post has signaled
	box.Run()
	if want := []string{"first", "second", "follower"}; !slices.Equal(got, want) {
		t.Errorf("the second Run has run %v, want %v", got, want)
	}
}

// Under -race: the posts of each poster run in order, and none is lost.
func TestMailboxLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const posters, each = 8, 500
		box := task.NewMailbox()
		done := make(chan struct{})
		got := make([][]int, posters) // only the owner accesses it
		go func() {
			defer close(done)
			for ran := 0; ran < posters*each; {
				<-box.Ready()
				box.Run()
				ran = 0
				for _, of := range got {
					ran += len(of)
				}
			}
		}()
		var wg sync.WaitGroup
		for poster := range posters {
			wg.Go(func() {
				for i := range each {
					box.Post(func() { got[poster] = append(got[poster], i) })
				}
			})
		}
		wg.Wait()
		<-done // a lost post leaves the bubble deadlocked, which fails the test
		for poster, of := range got {
			if !slices.IsSorted(of) {
				t.Errorf("the posts of poster %d were run in another order", poster)
			}
		}
	})
}

// A closure that is posted, or still queued, when the mailbox is closed is not run, and those who
// want to know learn it.
func TestClosedMailbox(t *testing.T) {
	t.Parallel()
	box := task.NewMailbox()
	var got []string
	note := func(what string) func() { return func() { got = append(got, what) } }
	box.PostOr(note("run"), note("run, and closed"))
	box.Run()
	box.PostOr(note("ran after the end"), note("queued"))
	box.Post(note("ran after the end"))
	box.Close()
	box.PostOr(note("ran after the end"), note("posted late"))
	box.Post(note("ran after the end"))
	box.Run()
	if want := []string{"run", "queued", "posted late"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A busy goroutine gets to its other work in between, and to posts that go first.
func TestRunForStopsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := task.NewMailbox()
		var got []int
		for i := range 5 {
			box.Post(func() {
				time.Sleep(2 * time.Millisecond)
				got = append(got, i)
			})
		}
		<-box.Ready()
		box.RunFor(3 * time.Millisecond)
		if !slices.Equal(got, []int{0, 1}) {
			t.Fatalf("ran %v in 3 ms, want two closures of 2 ms each", got)
		}
		box.Post(func() { got = append(got, 5) })
		box.PostFirst(func() { got = append(got, 9) })
		for range 2 {
			<-box.Ready() // also for those that were left
			box.RunFor(3 * time.Millisecond)
		}
		if !slices.Equal(got, []int{0, 1, 9, 2, 3, 4, 5}) {
			t.Errorf("ran %v, want the rest in order, after what was posted first", got)
		}
	})
}

func TestClosedMailboxTellsThoseThatWait(t *testing.T) {
	t.Parallel()
	box := task.NewMailbox()
	closed := 0
	for range 4 {
		box.PostOr(func() { time.Sleep(time.Millisecond) }, func() { closed++ })
	}
	box.RunFor(0)
	box.PostFirst(func() { t.Error("run after Close") })
	if box.Close(); closed != 3 {
		t.Errorf("%d of the 3 that were left are told", closed)
	}
}
