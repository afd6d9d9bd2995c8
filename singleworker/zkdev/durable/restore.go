package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zxids"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
)

// A Restored is a directory that Restore has written.
type Restored struct {
	Last  int64 // the zxid of the backup's last transaction
	Above int64 // is higher than all zxids of the lost servers, and lower than those to come
}

// Restore writes the directory dir, which it creates, with the nodes of a backup, which is a
// directory of a Server or of a ZooKeeper, for a server that goes on in the place of lost ones. A
// server that is opened on a copy of the backup itself uses zxids again, and clients that have seen
// more are kept out for a session timeout. Here zxids are higher than all that the lost servers
// have used, by so much that clients can tell, the data of all nodes is as if it was written now,
// and no session goes on: each client begins a new one, and reads everything again.
//
// The lost servers have used zxids up to above, and may have used more: they can have held up to
// 32,767 elections since. The directories in lost are theirs, as far as they are left. If neither
// is known, the same goes for the last zxid of the backup, unless a restore was made since the
// backup was taken. It returns ErrEmpty, ErrDamaged, ErrCompressed, an *invalid.FieldError, or an
// error of the file system, such as os.ErrExist, and then it has written nothing.
func Restore(backup, dir string, lost []string, above int64) (Restored, error) {
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return Restored{}, errors.Join(err, &os.PathError{Op: "create", Path: dir, Err: os.ErrExist})
	}
	state, err := readBackup(filepath.Join(backup, "version-2"))
	if err != nil {
		return Restored{}, fmt.Errorf("backup %s: %w", backup, err)
	}
	restored := Restored{Last: state.Zxid()}
	epoch := max(zxids.Epoch(restored.Last), zxids.Epoch(above))
	for _, of := range lost {
		known, err := lastEpoch(directory(filepath.Join(of, "version-2")))
		if err != nil {
			return Restored{}, fmt.Errorf("lost %s: %w", of, err)
		}
		epoch = max(epoch, known)
	}
	if epoch += zxids.Leap; epoch > math.MaxInt32 {
		return Restored{}, &invalid.FieldError{Field: "Above", Value: strconv.FormatInt(above, 10), Err: errors.New("there are no higher numbers")}
	}
	state.Renew(epoch)
	restored.Above = state.Zxid()
	return restored, writeWhole(dir, state)
}

// readBackup returns the state that a directory has, without changing the directory.
func readBackup(path string) (state *tree.State, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, errors.Join(ErrEmpty, err)
	}
	s := newStore(untouched{directory(path)}, slog.New(slog.DiscardHandler))
	load := func(zxid int64, image *txnlog.Snapshot, nodes []txnlog.Node) (err error) {
		state, err = tree.Load(time.Now(), tick, zxid, image, nodes)
		return err
	}
	_, err = s.read(load, func(txn *txnlog.Txn) error { return state.Replay(txn) })
	if err == nil && state == nil {
		err = ErrEmpty
	}
	return state, err
}

// untouched is a directory whose files stay as they are: a torn end is not cut off.
type untouched struct{ fileSystem }

func (untouched) truncate(string, int64) error { return nil }

func (untouched) remove(string) error { return nil }

func (untouched) sync(string) error { return nil }

// lastEpoch returns the last epoch of which there is a file, which need not be whole.
func lastEpoch(in fileSystem) (epoch int64, err error) {
	names, err := in.list()
	if err != nil {
		return 0, errors.Join(ErrEmpty, err)
	}
	if epoch, err = newStore(in, slog.New(slog.DiscardHandler)).memberEpoch(names); err != nil {
		return 0, err
	}
	found := false
	for _, name := range names {
		if _, zxid, ok := txnlog.ParseName(name); ok {
			epoch, found = max(epoch, zxids.Epoch(zxid)), true
		}
	}
	if !found {
		return 0, ErrEmpty
	}
	return epoch, nil
}

// writeWhole writes the directory of a server with a state. It is there as a whole or not at all: a
// server that was started on a part would begin with nothing.
func writeWhole(dir string, state *tree.State) error {
	above := filepath.Dir(filepath.Clean(dir))
	part, err := os.MkdirTemp(above, unfinished)
	if err != nil {
		return err
	}
	path := filepath.Join(part, "version-2")
	if err := os.Mkdir(path, 0o700); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	image, nodes := state.Image()
	err = newStore(directory(path), slog.New(slog.DiscardHandler)).Snapshot(state.Zxid(), image, nodes)
	if err == nil {
		err = os.Rename(part, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return directory(above).sync("")
}
