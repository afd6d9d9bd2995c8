package txns

import (
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Kinds of logged operations that are not on nodes of the group.
const (
	kindChecks   = "checks"   // of versions, in transactions with writes
	kindSessions = "sessions" // begins and ends, with the ephemeral nodes that end with them
	kindRefused  = "refused"
	kindOthers   = "others" // nodes of other groups
)

// Bytes returns how many bytes of transactions a server has logged from a time until before
// another, by kind. A node's kind is where it stands in the group: "tick" is each job's, "alive/*"
// the nodes below each job's alive, "job" a job's own node, "_instances" the nodes below the node
// of that name. Bytes of a whole transaction are shared by its operations as their sizes are. The
// server may run: all that it has acknowledged is there.
func Bytes(group, dir string, from, to time.Time) (map[string]int, error) {
	files, err := txnlog.List(dir)
	if err != nil {
		return nil, err
	}
	logs := txnlog.NewLogs(files.Logs)
	model, bytes := ledger.NewModel(zkrec.NewTree(group)), make(map[string]int)
	for {
		txn, err := logs.Next()
		switch {
		case errors.Is(err, io.EOF):
			return bytes, logs.Close()
		case err != nil:
			return nil, errors.Join(err, logs.Close())
		case !txn.Time.Before(from) && txn.Time.Before(to):
			share(&txn, model, bytes)
		}
	}
}

// share adds a transaction's bytes to the totals of its kinds.
func share(txn *txnlog.Txn, model *ledger.Model, bytes map[string]int) {
	const fixed = 20 // an operation's type and version, and the lengths of its path and its data
	size := func(op *txnlog.Op) int { return len(op.Path) + len(op.Data) + fixed }
	sizes, left := 0, txn.Bytes
	for k := range txn.Ops {
		sizes += size(&txn.Ops[k])
	}
	for k := range txn.Ops {
		n := size(&txn.Ops[k])
		part := left * n / sizes
		bytes[kindOf(txn, &txn.Ops[k], model)] += part
		left, sizes = left-part, sizes-n
	}
	switch {
	case left == 0:
	case txn.Kind == txnlog.Other:
		bytes[kindRefused] += left
	default:
		bytes[kindSessions] += left
	}
}

func kindOf(txn *txnlog.Txn, op *txnlog.Op, model *ledger.Model) string {
	if txn.Kind == txnlog.Close {
		return kindSessions
	}
	if op.Type == txnlog.Check {
		return kindChecks
	}
	slot, node, rest, ok := model.Split(op.Path)
	switch {
	case !ok && slot == "":
		return kindOthers
	case !ok: // one of the group's own nodes
		return slot
	case slot != "" && rest != "":
		return node + "/*"
	}
	return cmp.Or(node, "job")
}
