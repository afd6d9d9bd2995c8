package zkdev

import (
	"cmp"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
)

// A transcript is the latest transactions, for Server.Log.
type transcript struct {
	limit int // none if it is negative
	txns  []Txn
}

func (t *transcript) add(txns []tree.Txn, ahead time.Duration) {
	if t.limit < 0 {
		return
	}
	for i := range txns {
		t.txns = append(t.txns, newTxn(&txns[i], ahead))
	}
	if len(t.txns)/2 >= t.limit {
		t.txns = slices.Clone(t.txns[len(t.txns)-t.limit:])
	}
}

// after returns those after a zxid.
func (t *transcript) after(zxid int64) []Txn {
	if t.limit < 0 {
		return nil
	}
	kept := t.txns[max(0, len(t.txns)-t.limit):]
	first, _ := slices.BinarySearchFunc(kept, zxid+1, func(txn Txn, from int64) int {
		return cmp.Compare(txn.Zxid, from)
	})
	return slices.Clone(kept[first:])
}

// forget removes those after a zxid.
func (t *transcript) forget(zxid int64) {
	t.txns = slices.DeleteFunc(t.txns, func(txn Txn) bool { return txn.Zxid > zxid })
}
