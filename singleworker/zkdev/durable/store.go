package durable

import (
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
)

const (
	// logBytes is how long a log gets until the next one is begun.
	logBytes = 16 << 20

	// imageBytes is how much log there is until the next snapshot.
	imageBytes = 64 << 20

	// keptImages is how many snapshots are kept, with all logs since the oldest of them, as
	// ZooKeeper does if it purges.
	keptImages = 3

	// hanging is how long a write may take until the server is not ready.
	hanging = 5 * time.Second

	// unfinished is before the names of files that are being written. ZooKeeper takes no notice of
	// them.
	unfinished = "tmp-"
)

// A store is ZooKeeper's files in a directory.
type store struct {
	fs     fileSystem
	logger *slog.Logger
	failed chan struct{} // closed after the first error, which is err
	err    atomic.Pointer[error]

	imageBytes, logBytes int64

	// Of Append.
	log     file // nil: the next one is to be created
	name    string
	written int64 // bytes in log

	since   atomic.Int64              // bytes of log since the last snapshot
	writing atomic.Pointer[time.Time] // when the write that is in progress began
}

func newStore(fs fileSystem, logger *slog.Logger) *store {
	return &store{fs: fs, logger: logger, failed: make(chan struct{}), imageBytes: imageBytes, logBytes: logBytes}
}

// fail remembers the first error. Nothing is written after it: when an fsync has failed, the kernel
// may have forgotten the bytes that it could not write, and another one succeeds.
func (s *store) fail(doing string, err error) error {
	err = fmt.Errorf("durable: %s: %w", doing, explain(err))
	if s.err.CompareAndSwap(nil, &err) {
		close(s.failed)
	}
	return err
}

// ready returns nil, or why nothing is acknowledged.
func (s *store) ready() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	if began := s.writing.Load(); began != nil {
		if took := time.Since(*began); took >= hanging {
			return fmt.Errorf("the disk hangs: a write has taken %v", took.Round(time.Second))
		}
	}
	return nil
}

// Append implements zkdev.Store.
func (s *store) Append(first int64, records []byte) error {
	if failed := s.err.Load(); failed != nil {
		return *failed
	}
	begun := s.log == nil
	now := time.Now()
	s.writing.Store(&now)
	defer s.writing.Store(nil)
	if begun {
		name := logName(first)
		log, err := s.fs.create(name)
		if err != nil {
			return s.fail("create "+name, err)
		}
		s.log, s.name, s.written = log, name, 0
		if err := log.extend(s.logBytes); err != nil { // or each fsync would write its length, too
			return s.fail("extend "+name, err)
		}
		records = append(txnlog.AppendHead(nil), records...)
	}
	if _, err := s.log.Write(records); err != nil {
		return s.fail("write "+s.name, err)
	}
	if err := s.log.sync(); err != nil {
		return s.fail("fsync "+s.name, err)
	}
	if begun {
		if err := s.fs.sync(""); err != nil {
			return s.fail("fsync the directory", err)
		}
	}
	s.written += int64(len(records))
	s.since.Add(int64(len(records)))
	if s.written >= s.logBytes {
		log := s.log
		s.log = nil
		if err := log.Close(); err != nil {
			return s.fail("close "+s.name, err)
		}
	}
	return nil
}

// Due implements zkdev.Store.
func (s *store) Due() bool { return s.since.Load() >= s.imageBytes }

// Snapshot implements zkdev.Store.
func (s *store) Snapshot(zxid int64, image *txnlog.Snapshot, nodes iter.Seq[txnlog.Node]) error {
	s.since.Store(0)
	name := imageName(zxid)
	if err := s.replace(name, func(f file) error { return txnlog.WriteSnapshot(f, image, nodes) }); err != nil {
		return err
	}
	return s.purge()
}

// replace writes a file that is there after a crash as it was before, or whole.
func (s *store) replace(name string, write func(file) error) error {
	f, err := s.fs.create(unfinished + name)
	if err != nil {
		return s.fail("create "+unfinished+name, err)
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return s.fail("write "+unfinished+name, err)
	}
	if err := f.sync(); err != nil {
		_ = f.Close()
		return s.fail("fsync "+unfinished+name, err)
	}
	if err := f.Close(); err != nil {
		return s.fail("close "+unfinished+name, err)
	}
	if err := s.fs.rename(unfinished+name, name); err != nil {
		return s.fail("rename "+unfinished+name, err)
	}
	if err := s.fs.sync(""); err != nil {
		return s.fail("fsync the directory", err)
	}
	return nil
}

// purge removes the snapshots before those that are kept, and then the logs before them.
func (s *store) purge() error {
	have, err := s.list()
	if err != nil {
		return err
	}
	if len(have.images) <= keptImages {
		return nil
	}
	old := have.images[:len(have.images)-keptImages]
	oldest := have.images[len(old)]
	names := make([]string, 0, len(old)+len(have.logs))
	for _, zxid := range old {
		names = append(names, imageName(zxid))
	}
	// A log has the transactions up to the beginning of the next one.
	for i, zxid := range have.logs {
		if i+1 < len(have.logs) && have.logs[i+1] <= oldest {
			names = append(names, logName(zxid))
		}
	}
	for _, name := range names {
		if err := s.fs.remove(name); err != nil {
			return s.fail("remove "+name, err)
		}
	}
	return nil
}

// files are the zxids in the names of logs and snapshots, in their order.
type files struct{ logs, images []int64 }

func (s *store) list() (have files, err error) {
	names, err := s.fs.list()
	if err != nil {
		return have, s.fail("list the directory", err)
	}
	for _, name := range names {
		switch kind, zxid, ok := txnlog.ParseName(name); {
		case !ok:
		case strings.HasSuffix(name, ".gz"):
			return have, s.fail("read "+name, ErrCompressed)
		case kind == txnlog.LogPrefix:
			have.logs = append(have.logs, zxid)
		default:
			have.images = append(have.images, zxid)
		}
	}
	slices.Sort(have.logs)
	slices.Sort(have.images)
	return have, nil
}

func logName(zxid int64) string { return fmt.Sprintf("%s.%x", txnlog.LogPrefix, zxid) }

func imageName(zxid int64) string { return fmt.Sprintf("%s.%x", txnlog.SnapshotPrefix, zxid) }

// close ends the writing.
func (s *store) close() error {
	if s.log == nil {
		return nil
	}
	return s.log.Close()
}
