package zkdev

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
)

// A follower is the server of one client that is behind: an earlier state, and the transactions
// since then.
type follower struct {
	state *tree.State
	lag   time.Duration
	queue []committed
}

// committed is a transaction that the follower applies at a later time.
type committed struct {
	at   time.Time
	txns []tree.Txn
}

// Lag makes the client's server one that is behind the leader by d, whatever connections the client
// has: the client reads, and is told by watches of, each transaction d after it was made, and all
// of them in order. As with ZooKeeper, the server catches up before it answers a write or a sync of
// the client, or gives it a new session, and as far as the client has seen before it takes over a
// session. A request that is lost on the way does not make it catch up. Zero ends the lag.
func (c *Client) Lag(d time.Duration) {
	c.server.do(func(k *core) {
		f := k.behind[c]
		switch {
		case d > 0 && f != nil:
			f.lag = d
		case d > 0:
			f = &follower{state: k.state.Clone(), lag: d}
			k.behind[c] = f
			k.moveWatches(c, k.state, f.state)
		case f != nil:
			k.catchUp(f, k.state.Zxid())
			k.moveWatches(c, f.state, k.state)
			delete(k.behind, c)
		}
	})
}

func (k *core) moveWatches(of *Client, from, to *tree.State) {
	for _, c := range k.conns {
		if c.client == of {
			from.MoveWatches(c.id, to)
		}
	}
}

// follow has a follower apply a transaction later.
func (k *core) follow(f *follower, txns []tree.Txn) {
	if len(txns) == 0 {
		return
	}
	f.queue = append(f.queue, committed{time.Now().Add(f.lag), txns})
	k.after(f.lag, func() {
		for now := time.Now(); len(f.queue) > 0 && !f.queue[0].at.After(now); {
			k.step(f)
		}
	})
}

// catchUp has a follower apply all transactions up to one.
func (k *core) catchUp(f *follower, zxid int64) {
	for len(f.queue) > 0 && f.queue[0].txns[0].Zxid <= zxid {
		k.step(f)
	}
}

// step has a follower apply its next transaction.
func (k *core) step(f *follower) {
	txns := f.queue[0].txns
	f.queue = f.queue[1:]
	for n := range txns {
		k.notify(f.state.Follow(&txns[n]))
	}
}
