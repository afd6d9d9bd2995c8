package txns

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
)

// Read reads the logs of a group from the directories of all servers of an ensemble, which are to
// begin with its first transaction, and to end when all servers had the last one. It returns an
// error if transactions are missing from all logs, or differ between them.
//
// No server's log need be complete, because a server that was away may be sent a snapshot. Then it
// also keeps the last transactions of its own log, even if that was never committed.
func Read(group string, dirs ...string) (*Log, error) {
	var digests []digest
	for _, dir := range dirs {
		d, err := read(dir)
		if err != nil {
			return nil, fmt.Errorf("txns: %w", err)
		}
		digests = append(digests, d)
	}
	committed, err := chain(digests)
	if err != nil {
		return nil, fmt.Errorf("txns: %w", err)
	}
	log, err := judge(group, committed, func(visit func(*txnlog.Txn)) error { return merge(dirs, visit) })
	if err != nil {
		return nil, fmt.Errorf("txns: %w", err)
	}
	return log, nil
}

// judge reads the transactions, as often as it takes to know which of those that were not committed
// came back.
func judge(group string, committed map[int64]bool, all func(visit func(*txnlog.Txn)) error) (*Log, error) {
	var back []Loss
	for {
		s := newScribe(group)
		more, err := s.read(all, committed, back)
		if err != nil {
			return nil, err
		}
		if more == nil {
			s.finish()
			return s.Log, nil
		}
		back = append(back, *more) // from the beginning, with what came back where it belongs
	}
}

// read reads the transactions that were committed, or came back. It stops at one that shows that
// others came back, too, and returns those.
func (s *scribe) read(all func(visit func(*txnlog.Txn)) error, committed map[int64]bool, back []Loss) (more *Loss, err error) {
	for _, loss := range back {
		s.past.CameBack(loss)
	}
	var aside []Loss // each a number of transactions with none in between that was committed
	fresh := true
	err = all(func(txn *txnlog.Txn) {
		cameBack := slices.ContainsFunc(back, func(l Loss) bool { return l.First <= txn.Zxid && txn.Zxid <= l.Last })
		switch {
		case more != nil:
		case !committed[txn.Zxid] && !cameBack:
			if fresh {
				aside = append(aside, Loss{First: txn.Zxid})
			}
			run := &aside[len(aside)-1]
			run.Last, fresh = txn.Zxid, false
			run.Txns++
			s.Dropped++
			s.past.SetAside(txn)
		default:
			fresh = true
			if zxid := s.apply(txn); zxid != 0 {
				k := slices.IndexFunc(aside, func(l Loss) bool { return l.First <= zxid && zxid <= l.Last })
				more = &aside[k]
				more.Shown, more.Time = txn.Zxid, txn.Time
			}
		}
	})
	return more, err
}

// A digest of a server's log is compared with the digests of other servers.
type digest struct {
	dir  string
	sums map[int64]uint64 // by zxid
	// before is the transaction before; it lacks those before which others are missing. It is 0 if the
	// log begins there.
	before map[int64]int64
	last   int64
	// snapshots are the last transactions in them. One that is not in the log came from another
	// server.
	snapshots []int64
}

func newDigest(dir string, snapshots ...int64) digest {
	return digest{dir: dir, snapshots: snapshots, sums: make(map[int64]uint64), before: make(map[int64]int64)}
}

func read(dir string) (digest, error) {
	d := newDigest(dir)
	files, err := txnlog.List(dir)
	if err != nil {
		return d, err
	}
	for _, snapshot := range files.Snapshots {
		d.snapshots = append(d.snapshots, snapshot.Zxid)
	}
	logs := txnlog.NewLogs(files.Logs)
	for {
		txn, err := logs.Next()
		if errors.Is(err, io.EOF) {
			return d, logs.Close()
		}
		if err != nil {
			return d, errors.Join(err, logs.Close())
		}
		d.add(&txn)
	}
}

// noneYet is the zxid of a snapshot by the very first leader, before its first transaction.
const noneYet = 1 << 32

func (d *digest) add(txn *txnlog.Txn) {
	skipped := func(snapshot int64) bool { return d.last < snapshot && snapshot < txn.Zxid && snapshot != noneYet }
	if txnlog.Follows(txn.Zxid, d.last) && !slices.ContainsFunc(d.snapshots, skipped) {
		d.before[txn.Zxid] = d.last
	}
	d.sums[txn.Zxid], d.last = sumOf(txn), txn.Zxid
}

// sumOf is the same for transactions of one content.
func sumOf(txn *txnlog.Txn) uint64 {
	sum := fnv.New64a()
	_, _ = fmt.Fprintln(sum, txn.Session, txn.Time.UnixNano(), txn.Kind, txn.Timeout)
	for _, op := range txn.Ops {
		_, _ = fmt.Fprintln(sum, op.Type, op.Path, op.Version, op.Owner)
		_, _ = sum.Write(op.Data)
	}
	return sum.Sum64()
}

// chain finds the transactions that were committed: the history that the servers have in the end,
// from the last transaction that most of them have back to the first, and each transaction that
// most servers had logged.
//
// A log without a gap before a transaction tells which transaction precedes it. If two logs differ,
// the later transactions of one of them were taken back: it has kept them in its log, as servers
// sometimes do, and the other one has not.
func chain(logs []digest) (committed map[int64]bool, err error) {
	holders := make(map[int64]int)
	for _, log := range logs {
		for zxid := range log.sums {
			holders[zxid]++
		}
	}
	last := int64(0)
	for zxid, n := range holders {
		if 2*n > len(logs) {
			last = max(last, zxid)
		}
	}
	committed = make(map[int64]bool)
	for zxid := last; zxid != 0; {
		committed[zxid] = true
		before, found := int64(0), false
		for _, log := range logs {
			if sum, has := log.sums[zxid]; has && sum != firstSum(logs, zxid) {
				return nil, fmt.Errorf("transaction %#x in %s is another one elsewhere", zxid, log.dir)
			}
			one, contiguous := log.before[zxid]
			if contiguous && (!found || one != 0 && (before == 0 || one < before)) {
				before = one
			}
			found = found || contiguous
		}
		if !found {
			return nil, fmt.Errorf("no log has what comes before transaction %#x", zxid)
		}
		zxid = before
	}
	for zxid, n := range holders {
		if 2*n > len(logs) {
			committed[zxid] = true
		}
	}
	return committed, nil
}

// firstSum is the transaction's sum in the first log that has it.
func firstSum(logs []digest, zxid int64) uint64 {
	for _, log := range logs {
		if sum, has := log.sums[zxid]; has {
			return sum
		}
	}
	return 0
}

// A source is a server's log that is merged with others.
type source struct {
	logs *txnlog.Logs
	next txnlog.Txn
	end  bool
}

func (s *source) advance() (err error) {
	if s.next, err = s.logs.Next(); errors.Is(err, io.EOF) {
		s.end, err = true, nil
	}
	return err
}

// merge reads the logs side by side and visits each transaction once, in order.
func merge(dirs []string, visit func(*txnlog.Txn)) (err error) {
	var all []*source
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.logs.Close())
		}
	}()
	for _, dir := range dirs {
		files, err := txnlog.List(dir)
		if err != nil {
			return err
		}
		s := &source{logs: txnlog.NewLogs(files.Logs)}
		all = append(all, s)
		if err := s.advance(); err != nil {
			return err
		}
	}
	for last := int64(0); ; {
		var first *source
		for _, s := range all {
			if !s.end && (first == nil || s.next.Zxid < first.next.Zxid) {
				first = s
			}
		}
		if first == nil {
			return nil
		}
		if first.next.Zxid > last {
			last = first.next.Zxid
			visit(&first.next)
		}
		if err := first.advance(); err != nil {
			return err
		}
	}
}
