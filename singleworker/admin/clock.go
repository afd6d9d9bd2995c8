package admin

import (
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// A Client judges by the group's time, as instances do. It writes nothing, so that
// no answer tells it what time it is. It takes an instance's sign of life for one: that came
// between the sending of the reading before it and the answer to the one that has it. So whether
// signs of life come, and how often, makes the estimate more or less narrow, and never wrong.

// clock is what a Client knows of this machine's clock. Safe for concurrent use.
type clock struct {
	wall  wall.Clock
	begun time.Time
	turn  chan struct{} // buffers one for the reading that compares

	mu        sync.Mutex
	estimator offset.Estimator // of how far this clock is ahead of ZooKeeper's
	looked    offset.Reading   // when signs of life were last looked for
	compared  offset.Reading   // when the last reading of some was sent
	seen      int64            // the zxid up to which everything had happened then
	sign      time.Time        // of the latest of them, by ZooKeeper's clock
	open      bool             // the next one was to tell, and there was no time to wait for it
	awaited   int64            // the zxid of one after which none came for long
	own       bool             // none was found that tells, so this clock is all there is
	serverOff time.Duration    // by how much ZooKeeper's clock is behind the group's time
	behind    time.Duration    // by how much that of an instance that takes jobs is, at most
}

func newClock() *clock { return &clock{begun: time.Now(), turn: make(chan struct{}, 1)} }

const (
	// compareEvery is how long an estimate is used before signs of life are read again.
	compareEvery = time.Minute
	// beatsPerSession is how many signs of life an instance gives in a session timeout, as package
	// lease has it.
	beatsPerSession = 4
	// clockSlack is by how much a clock may be off without being corrected.
	clockSlack = time.Second
)

// moment is the group's time.
type moment struct {
	now     time.Time // the best guess
	certain time.Time // it has come by the clock of each instance that takes jobs, too: what is late by it is late

	ahead time.Duration // how far this machine's clock is ahead
	own   bool          // it is that clock's, as nothing tells the group's
}

func (k *clock) reading() offset.Reading {
	now := time.Now()
	return offset.Reading{Mono: now.Sub(k.begun), Wall: k.wall.Now().Round(0)}
}

func (k *clock) now() moment {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ahead time.Duration
	r := k.reading()
	if is, known := k.estimator.Now(r); known && is.Less(k.serverOff).Beyond(clockSlack) {
		ahead = is.High - k.serverOff
	}
	now := r.Wall.Add(-ahead)
	return moment{now, now.Add(-k.behind), ahead, k.own}
}

// follow takes in what instances publish of their clocks.
func (k *clock) follow(peers map[string]offset.Peer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.serverOff, _ = offset.OfGroup(offset.DefaultLimit, peers)
	k.behind = 0
	for _, of := range peers {
		if !of.Wrong { // so it is within the limit of its group
			k.behind = max(k.behind, of.Behind(k.serverOff, 0))
		}
	}
}

// due reports whether signs of life are to be read: for the first time, after a while, or because
// this clock was set.
func (k *clock) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.reading()
	mono, wall := now.Mono-k.looked.Mono, now.Wall.Sub(k.looked.Wall)
	return k.open || mono >= compareEvery || (wall-mono).Abs() > clockSlack
}

// looks notes that signs of life are looked for.
func (k *clock) looks() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked = k.reading()
}

// take takes in the latest sign of life of a reading, if it found any. Instances give one that
// often. It reports whether no more need to be read.
func (k *clock) take(sent, answered offset.Reading, seen int64, beat zkconn.Stat, every time.Duration) (done bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen != 0 && beat.Mzxid > k.seen {
		k.estimator.Answered(k.compared, answered, beat.Mtime)
	}
	if beat.Mzxid != 0 { // otherwise nothing may have been read since it was sent
		k.compared, k.seen, k.sign = sent, seen, beat.Mtime
	}
	is, known := k.estimator.Now(answered)
	wrong := known && is.Less(k.serverOff).Beyond(clockSlack)
	age := answered.Wall.Sub(beat.Mtime) - k.serverOff // if the clock is right
	odd := beat.Mzxid == 0 || age < -clockSlack || age > every+clockSlack
	k.own = odd && !known
	k.open = odd && !wrong && beat.Mzxid != 0 && beat.Mzxid != k.awaited
	return !k.open
}

func (k *clock) lastSign() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sign
}
