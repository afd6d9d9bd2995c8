package txnaudit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
)

// evidence is the files of one server, or of several of one ensemble.
type evidence struct {
	servers   []txnlog.Files
	snapshots []txnlog.File // of all of them, by zxid
	bytes     int64         // of the logs
	back      []txnlog.Loss // were taken back, and came back

	wait func() ([]txnlog.File, error) // of Logs
}

// collect lists the files in the directories.
func collect(dirs []string) (evidence, error) {
	var e evidence
	for _, dir := range dirs {
		files, err := txnlog.List(dir)
		if err != nil {
			return e, err
		}
		if len(files.Logs) > 0 {
			e.servers = append(e.servers, files)
		}
		for _, file := range files.Logs {
			e.bytes += file.Size
		}
		e.snapshots = append(e.snapshots, files.Snapshots...)
	}
	slices.SortStableFunc(e.snapshots, func(a, b txnlog.File) int { return cmp.Compare(a.Zxid, b.Zxid) })
	if len(e.servers) == 0 {
		return e, fmt.Errorf("%w in %q: want log.* files, there or in version-2 below", ErrNoLog, dirs)
	}
	return e, nil
}

// looksAfter is after how many transactions a reader looks whether it is to stop, and tells how far
// it is.
const looksAfter = 1 << 12

// each calls f for the transactions of all servers, in order and each once, until f returns false.
// It returns remarks about the files. Transactions that were taken back go to aside: a leader may
// have logged a transaction, and died, before the others had it. Its log keeps that transaction,
// and theirs continue without it.
func (e evidence) each(ctx context.Context, progress func(done int64), aside func(*txnlog.Txn), f func(*txnlog.Txn) bool) (notes []string, err error) {
	var all []*server
	takenBack := 0
	defer func() {
		if takenBack > 0 {
			notes = append(notes, fmt.Sprintf("%d transactions were not judged, because the other servers continued without them", takenBack))
		}
		for _, s := range all {
			notes = append(notes, s.logs.Torn...)
			_ = s.logs.Close() // it was only read
		}
	}()
	for _, files := range e.servers {
		s := &server{logs: txnlog.NewLogs(files.Logs), snapshots: files.Snapshots}
		s.logs.Wait = e.wait
		all = append(all, s)
		if err := s.advance(); err != nil {
			return nil, err
		}
	}
	last := int64(-1)
	for n := 1; ; n++ {
		var next *server
		for _, s := range all {
			if !s.ended && (next == nil || s.txn.Zxid < next.txn.Zxid) {
				next = s
			}
		}
		if next == nil {
			return nil, nil
		}
		if n%looksAfter == 0 {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			if progress != nil {
				done := int64(0)
				for _, s := range all {
					done += s.logs.Done()
				}
				progress(done)
			}
		}
		if txn := next.txn; txn.Zxid != last { // otherwise another server had it
			last = txn.Zxid
			if slices.ContainsFunc(all, func(s *server) bool { return s.passesOver(txn.Zxid) }) && !e.cameBack(txn.Zxid) {
				takenBack++
				aside(&txn)
			} else if !f(&txn) {
				return nil, nil
			}
		}
		if err := next.advance(); err != nil {
			return nil, err
		}
	}
}

// cameBack reports whether a later leader had a transaction that was taken back.
func (e evidence) cameBack(zxid int64) bool {
	return slices.ContainsFunc(e.back, func(l txnlog.Loss) bool { return l.First <= zxid && zxid <= l.Last })
}

// server is one of those whose logs are read side by side.
type server struct {
	logs      *txnlog.Logs
	snapshots []txnlog.File
	before    int64 // zxid of the transaction before txn; 0 before the first
	txn       txnlog.Txn
	ended     bool
}

func (s *server) advance() (err error) {
	s.before = s.txn.Zxid
	if s.txn, err = s.logs.Next(); errors.Is(err, io.EOF) {
		s.ended, err = true, nil
	}
	return err
}

// passesOver reports whether the log continues after zxid without it, and without a gap: a server
// that was away may be sent a snapshot instead of the transactions that it lacks.
func (s *server) passesOver(zxid int64) bool {
	if s.ended || s.before == 0 || s.txn.Zxid <= zxid || !txnlog.Follows(s.txn.Zxid, s.before) {
		return false
	}
	return !slices.ContainsFunc(s.snapshots, func(sent txnlog.File) bool {
		return s.before < sent.Zxid && sent.Zxid < s.txn.Zxid
	})
}
