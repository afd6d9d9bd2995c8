package swtest

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// chance has the instance's random choices, drawn from the seed. Two draws for different purposes,
// or at different instants, do not depend on which goroutine draws first.
func (i *Instance) chance() *chance.Source {
	seed := i.cluster.cfg.Seed
	if seed == 0 {
		return nil
	}
	return &chance.Source{Settle: settle, Draw: func(purpose string) *rand.ChaCha8 {
		return rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d %s %d %s", seed, i.place, time.Now().UnixNano(), purpose)))
	}}
}

// settle lets a little time pass. Messages arrive at multiples of zkdev.Apart, and most planned
// work of an instance happens at such moments, or at moments at which a loop has continued. Each
// loop continues in a separate part of the time between, so that the state it finds does not depend
// on the order of the goroutines.
func settle(loop chance.Loop) {
	const loops = 2
	at := time.Now().Truncate(zkdev.Apart).Add(zkdev.Apart * time.Duration(1+loop) / (1 + loops))
	if !at.After(time.Now()) {
		at = at.Add(zkdev.Apart)
	}
	<-time.After(time.Until(at))
}
