package txns

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
)

// Read reads the logs of a group from the directories of its servers, which are to begin with the first
// transaction of an empty ensemble. It takes the log that is complete and reaches furthest, and returns an
// error if no log is complete, or if the servers do not agree on what it has.
func Read(group string, dirs ...string) (*Log, error) {
	var logs []digest
	best := 0
	for k, dir := range dirs {
		d, err := read(dir)
		if err != nil {
			return nil, fmt.Errorf("txns: %w", err)
		}
		logs = append(logs, d)
		if b := logs[best]; d.gap == 0 && (b.gap != 0 || d.last > b.last) {
			best = k
		}
	}
	if err := agree(logs, best); err != nil {
		return nil, fmt.Errorf("txns: %w", err)
	}
	s := newScribe(group)
	if err := each(dirs[best], s.apply); err != nil {
		return nil, fmt.Errorf("txns: %w", err)
	}
	s.end()
	return s.Log, nil
}

// A digest of a server's log is what is compared with others.
type digest struct {
	dir  string
	sums map[int64]uint64 // by zxid
	last int64
	gap  int64 // the first transaction whose predecessor is missing, or 0
}

func read(dir string) (digest, error) {
	d := digest{dir: dir, sums: make(map[int64]uint64)}
	err := each(dir, func(txn *txnlog.Txn) { d.add(txn) })
	return d, err
}

func (d *digest) add(txn *txnlog.Txn) {
	if d.gap == 0 && !txnlog.Follows(txn.Zxid, d.last) {
		d.gap = txn.Zxid
	}
	sum := fnv.New64a()
	_, _ = fmt.Fprintln(sum, txn.Session, txn.Time.UnixNano(), txn.Kind, txn.Timeout)
	for _, op := range txn.Ops {
		_, _ = fmt.Fprintln(sum, op.Type, op.Path, op.Version, op.Owner)
		_, _ = sum.Write(op.Data)
	}
	d.sums[txn.Zxid], d.last = sum.Sum64(), txn.Zxid
}

// agree checks that the best log is complete, that what most servers have is in it, and that nobody has another
// transaction in the place of one of its. What only one server has was never committed.
func agree(logs []digest, best int) error {
	if log := logs[best]; log.gap != 0 {
		return fmt.Errorf("no server's log is complete; that in %s lacks what comes before %#x", log.dir, log.gap)
	}
	have := make(map[int64]int)
	for _, log := range logs {
		for zxid, sum := range log.sums {
			have[zxid]++
			if known, ok := logs[best].sums[zxid]; ok && known != sum {
				return fmt.Errorf("transaction %#x in %s is not the one in %s", zxid, log.dir, logs[best].dir)
			}
		}
	}
	for _, zxid := range slices.Sorted(maps.Keys(have)) {
		if _, ok := logs[best].sums[zxid]; !ok && 2*have[zxid] > len(logs) {
			return fmt.Errorf("transaction %#x is not in %s, but in most others", zxid, logs[best].dir)
		}
	}
	return nil
}

// each reads the logs in a directory, in order. A server that is killed in the middle of a write leaves a torn
// record, which was never committed.
func each(dir string, visit func(*txnlog.Txn)) error {
	files, err := txnlog.List(dir)
	if err != nil {
		return err
	}
	logs := txnlog.NewLogs(files.Logs)
	for {
		txn, err := logs.Next()
		if errors.Is(err, io.EOF) {
			return logs.Close()
		}
		if err != nil {
			return errors.Join(err, logs.Close())
		}
		visit(&txn)
	}
}
