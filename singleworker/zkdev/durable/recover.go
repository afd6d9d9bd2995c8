package durable

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zxids"
)

const (
	// The files by which members of an ensemble agree on who leads.
	acceptedEpoch = "acceptedEpoch"
	currentEpoch  = "currentEpoch"

	// maxTorn is how many bytes behind the last whole record of the last log may be damaged: when
	// the machine crashed, at most one batch was on its way to the disk. It has 1 MB and one more
	// record, which is longer only at the end of a session with tens of thousands of nodes. If
	// there are more bytes, something else has damaged acknowledged transactions.
	maxTorn = 4 << 20
)

// Recover implements zkdev.Store. It can crash and begin again. Nothing is handed over that could
// still be lost: a process that was killed leaves bytes that the kernel has yet to write.
func (s *store) Recover(load func(int64, *txnlog.Snapshot, []txnlog.Node) error, replay func(*txnlog.Txn) error) (epoch int64, err error) {
	names, err := s.fs.list()
	if err != nil {
		return 0, s.fail("list the directory", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, unfinished) {
			if err := s.fs.remove(name); err != nil {
				return 0, s.fail("remove "+name, err)
			}
		}
	}
	last, err := s.read(load, replay)
	if err != nil {
		return 0, err
	}
	if err := s.fs.sync(""); err != nil {
		return 0, s.fail("fsync the directory", err)
	}
	return s.nextEpoch(names, last)
}

// read loads a snapshot and replays the transactions after it. It returns the last one.
func (s *store) read(load func(int64, *txnlog.Snapshot, []txnlog.Node) error, replay func(*txnlog.Txn) error) (last int64, err error) {
	have, err := s.list()
	if err != nil || len(have.images)+len(have.logs) == 0 {
		return 0, err
	}
	if last, err = s.loadImage(have, load); err != nil {
		return 0, err
	}
	return s.readLogs(have.logs, last, replay)
}

// loadImage loads the latest snapshot that is whole: ZooKeeper leaves half a one if it crashes.
func (s *store) loadImage(have files, load func(int64, *txnlog.Snapshot, []txnlog.Node) error) (zxid int64, err error) {
	damaged := errors.New("there is none")
	for _, zxid := range slices.Backward(have.images) {
		name := imageName(zxid)
		var nodes []txnlog.Node
		in, err := s.fs.open(name)
		if err != nil {
			return 0, s.fail("open "+name, err)
		}
		image, err := txnlog.ReadSnapshot(in, func(n txnlog.Node) { nodes = append(nodes, n) })
		_ = in.Close()
		if errors.Is(err, txnlog.ErrCorrupt) {
			damaged = fmt.Errorf("%s: %w", name, err)
			s.logger.Warn("a snapshot is not whole, an earlier one is used", "file", name, "err", err)
			continue
		}
		if err == nil {
			err = load(zxid, image, nodes)
		}
		if err == nil {
			err = s.fs.sync(name)
		}
		if err != nil {
			return 0, s.fail("load "+name, err)
		}
		return zxid, nil
	}
	return 0, s.fail("find a whole snapshot", errors.Join(ErrDamaged, damaged))
}

// readLogs replays the transactions after a snapshot, and cuts half records off the last log.
func (s *store) readLogs(logs []int64, zxid int64, replay func(*txnlog.Txn) error) (last int64, err error) {
	first := 0
	for i, begins := range logs {
		if begins <= zxid+1 {
			first = i
		}
	}
	last = zxid
	for i := first; i < len(logs); i++ {
		name := logName(logs[i])
		end, behind, err := s.readLog(name, i == len(logs)-1, func(txn *txnlog.Txn) error {
			if txn.Zxid <= last {
				return nil // is in the snapshot, or was logged twice by a member of an ensemble
			}
			if !follows(txn.Zxid, last) {
				return fmt.Errorf("%w: transaction %#x comes after %#x, and none of the files has those in between", ErrDamaged, txn.Zxid, last)
			}
			last = txn.Zxid
			return replay(txn)
		})
		if err == nil && i == len(logs)-1 {
			err = s.cut(name, end, behind)
		} else if err == nil {
			err = s.fs.sync(name)
		}
		if err != nil {
			return 0, s.fail("read "+name, err)
		}
		s.since.Add(end)
	}
	return last, nil
}

// follows reports whether a transaction can be the next one. A request that is refused early takes
// a zxid and is not logged.
func follows(zxid, last int64) bool {
	return txnlog.Follows(zxid, last) || txnlog.Follows(zxid-1, last)
}

// A tail is the bytes of a log behind its last whole record.
type tail struct {
	all  int64
	torn int64 // up to the last one that is not zero
}

// readLog replays one log. It returns where its last whole record ends, and the tail of the last
// log.
func (s *store) readLog(name string, isLast bool, replay func(*txnlog.Txn) error) (end int64, behind tail, err error) {
	in, err := s.fs.open(name)
	if err != nil {
		return 0, tail{}, err
	}
	defer in.Close()
	counted := &counter{in: in}
	log, err := txnlog.NewReader(counted)
	for err == nil {
		end = log.Offset()
		var txn txnlog.Txn
		if txn, err = log.Next(); err == nil {
			if err := replay(&txn); err != nil {
				return 0, tail{}, err
			}
		}
	}
	if errors.Is(err, txnlog.ErrFile) {
		return 0, tail{}, err
	}
	if errors.Is(err, txnlog.ErrCorrupt) && (!isLast || end == 0 && !counted.isTorn()) {
		return 0, tail{}, errors.Join(ErrDamaged, err)
	}
	if !isLast {
		return end, tail{}, nil
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return 0, tail{}, err
	}
	if !errors.Is(err, io.EOF) && counted.content-end > maxTorn {
		return 0, tail{}, fmt.Errorf("%w: %d bytes follow, which is more than a crash leaves: %w", ErrDamaged, counted.content-end, err)
	}
	return end, tail{counted.size - end, max(0, counted.content-end)}, nil
}

// A counter counts the bytes that are read.
type counter struct {
	in            io.Reader
	size, content int64 // content: up to the last byte that is not zero
	head          []byte
}

// isTorn reports whether a log may begin like that after a crash: some bytes of its head are there,
// and zeros in the place of the others.
func (c *counter) isTorn() bool {
	for i, b := range txnlog.AppendHead(nil) {
		if i < len(c.head) && c.head[i] != b && c.head[i] != 0 {
			return false
		}
	}
	return true
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if c.size == 0 {
		c.head = append(c.head, p[:n]...)
	}
	for i, b := range slices.Backward(p[:n]) {
		if b != 0 {
			c.content = c.size + int64(i) + 1
			break
		}
	}
	c.size += int64(n)
	return n, err
}

// cut has a log end behind its last whole record, on disk. It removes a log without any: the next
// one could have its name.
func (s *store) cut(name string, end int64, behind tail) error {
	const head = 16
	if end <= head {
		s.logger.Info("a log without a transaction is removed", "file", name)
		return s.fs.remove(name)
	}
	if behind.torn > 0 {
		s.logger.Info("the end of a log is cut off: no transaction is whole there", "file", name, "bytes", behind.torn)
	}
	if behind.all > 0 {
		if err := s.fs.truncate(name, end); err != nil {
			return err
		}
	}
	return s.fs.sync(name)
}

// memberEpoch returns the last epoch that a member of an ensemble knew of. The others may have had
// transactions of it. It returns 0 for the directory of a server that was none.
func (s *store) memberEpoch(names []string) (epoch int64, err error) {
	for _, name := range []string{acceptedEpoch, currentEpoch} {
		if !slices.Contains(names, name) {
			continue
		}
		in, err := s.fs.open(name)
		if err != nil {
			return 0, s.fail("open "+name, err)
		}
		text, err := io.ReadAll(in)
		_ = in.Close()
		var n int64
		if err == nil {
			n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
		}
		if err != nil {
			return 0, s.fail("read "+name, err)
		}
		epoch = max(epoch, n)
	}
	return epoch, nil
}

// nextEpoch begins a new epoch if the directory was a member's of an ensemble: transactions that
// the others have logged since then must not have the same zxids.
func (s *store) nextEpoch(names []string, last int64) (epoch int64, err error) {
	member := slices.Contains(names, acceptedEpoch) || slices.Contains(names, currentEpoch)
	if epoch, err = s.memberEpoch(names); err != nil {
		return 0, err
	}
	if epoch = max(epoch, zxids.Epoch(last)); epoch == 0 {
		return 0, nil
	}
	epoch++
	if !member {
		return epoch, nil
	}
	for _, name := range []string{acceptedEpoch, currentEpoch} {
		err := s.replace(name, func(f file) error {
			_, err := io.WriteString(f, strconv.FormatInt(epoch, 10))
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return epoch, nil
}
