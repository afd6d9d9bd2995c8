package zkdev

import (
	"iter"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
)

// A Store keeps a server's transactions: package durable has one, in files. With it, nobody sees
// anything of a transaction, neither a reply nor a watch event nor the data in another reply,
// before Append has returned. The server stops when a method returns an error.
type Store interface {
	// Recover calls load with a snapshot that was begun at a zxid, and then replay with the
	// transactions after it. It calls none of them if there is nothing. zxids begin with the epoch,
	// unless it is 0.
	Recover(load func(zxid int64, image *txnlog.Snapshot, nodes []txnlog.Node) error, replay func(*txnlog.Txn) error) (epoch int64, err error)

	// Append adds records to the log, the first one of a zxid. They are on disk when it returns.
	Append(first int64, records []byte) error

	// Due reports whether there should be a snapshot, because the log is long. It is called by the
	// goroutine that calls Append.
	Due() bool

	// Snapshot writes the state of the server at a zxid. Append is called meanwhile.
	Snapshot(zxid int64, image *txnlog.Snapshot, nodes iter.Seq[txnlog.Node]) error
}

// maxBatch is how many bytes of records are enough to be written with one fsync.
const maxBatch = 1 << 20

// maxUnlogged limits the bytes of records that wait for the disk. Beyond it, no requests are read.
const maxUnlogged = 16 << 20

// A disk has the transactions that are on their way to the Store, and holds back the frames that
// clients must not see before they have arrived. It belongs to core. A nil disk forgets everything.
type disk struct {
	store   Store
	work    chan struct{} // has one element if there is a batch
	batches []batch
	bytes   int   // of the batches' records
	logged  int64 // latest zxid in a batch
	durable int64 // latest zxid in the Store
	held    []held
	imaging bool // a snapshot is being written
}

// A batch is records that are written together.
type batch struct {
	first, last int64 // zxids
	records     []byte
}

// held is a frame, or the end of a connection, that waits for the disk.
type held struct {
	until int64 // zxid
	to    *outbox
	frame []byte // nil for the end
}

func newDisk(store Store) *disk {
	if store == nil {
		return nil
	}
	return &disk{store: store, work: make(chan struct{}, 1)}
}

// log adds a transaction.
func (d *disk) log(txns []tree.Txn) {
	if d == nil || len(txns) == 0 {
		return
	}
	txn := tree.Logged(txns)
	d.logged = txn.Zxid
	if n := len(d.batches); n == 0 || len(d.batches[n-1].records) >= maxBatch {
		d.batches = append(d.batches, batch{first: txn.Zxid})
	}
	last := &d.batches[len(d.batches)-1]
	before := len(last.records)
	last.last, last.records = txn.Zxid, txnlog.AppendTxn(last.records, &txn)
	d.bytes += len(last.records) - before
	select {
	case d.work <- struct{}{}:
	default: // all batches are taken at each wake-up
	}
}

func (d *disk) isFull() bool { return d != nil && d.bytes > maxUnlogged }

// take returns the next batch; it has no records if there is none.
func (d *disk) take() (next batch) {
	if len(d.batches) > 0 {
		next, d.batches = d.batches[0], d.batches[1:]
		d.bytes -= len(next.records)
	}
	return next
}

// put sends a frame when the disk has everything that it may tell.
func (d *disk) put(to *outbox, frame []byte) {
	if d == nil || d.durable == d.logged {
		to.put(frame)
		return
	}
	to.reserve(len(frame))
	d.held = append(d.held, held{d.logged, to, frame})
}

// finish closes a connection behind the frames that were put.
func (d *disk) finish(to *outbox) {
	if d == nil || d.durable == d.logged {
		to.finish()
		return
	}
	d.held = append(d.held, held{d.logged, to, nil})
}

// wrote sends the frames that have waited for the transactions up to a zxid.
func (d *disk) wrote(zxid int64) {
	d.durable = zxid
	n := 0
	for ; n < len(d.held) && d.held[n].until <= zxid; n++ {
		if h := d.held[n]; h.frame == nil {
			h.to.finish()
		} else {
			h.to.reserve(-len(h.frame))
			h.to.put(h.frame)
		}
	}
	clear(d.held[:n])
	if d.held = d.held[n:]; len(d.held) == 0 {
		d.held = nil
	}
}

// recover loads the state from the Store.
func (k *core) recover(store Store) error {
	now := k.now()
	found := false
	load := func(zxid int64, image *txnlog.Snapshot, nodes []txnlog.Node) (err error) {
		found = true
		k.state, err = tree.Load(now, k.config.Tick, zxid, image, nodes)
		return err
	}
	epoch, err := store.Recover(load, func(txn *txnlog.Txn) error {
		k.clock.notBefore(txn.Time)
		return k.state.Replay(txn)
	})
	if err != nil {
		return err
	}
	k.state.Settle()
	if epoch != 0 {
		k.state.BeginEpoch(epoch)
	}
	if !found {
		image, nodes := k.state.Image()
		if err := store.Snapshot(0, image, nodes); err != nil {
			return err
		}
	}
	k.disk.logged, k.disk.durable = k.state.Zxid(), k.state.Zxid()
	return nil
}

// commit is the goroutine that writes to the Store. It ends the life if that fails.
func (l *life) commit() {
	for {
		select {
		case <-l.core.disk.work:
			if err := l.flush(); err != nil {
				l.core.config.Logger.Error("the server stops: what it has acknowledged must be on disk", "err", err)
				l.halt()
				return
			}
		case <-l.stopping:
			_ = l.flush() // nobody has been told of that, and nobody will be
			return
		}
	}
}

// flush writes all batches.
func (l *life) flush() error {
	for d := l.core.disk; ; {
		l.owner.Lock()
		next := d.take()
		var image *tree.State
		if next.last == d.logged && !d.imaging && d.store.Due() {
			d.imaging = true
			image = l.core.state.Clone()
		}
		l.less.Broadcast()
		l.owner.Unlock()
		if next.records == nil {
			return nil
		}
		if err := d.store.Append(next.first, next.records); err != nil {
			return err
		}
		l.owner.Lock()
		d.wrote(next.last)
		l.owner.Unlock()
		if image != nil { // it must not be on disk before its transactions
			l.wg.Go(func() { l.snapshot(image) })
		}
	}
}

// snapshot writes a snapshot.
func (l *life) snapshot(state *tree.State) {
	image, nodes := state.Image()
	err := l.core.disk.store.Snapshot(state.Zxid(), image, nodes)
	if err != nil {
		l.core.config.Logger.Error("the server stops: it cannot write a snapshot, and its log would grow for ever", "err", err)
		l.halt()
	}
	l.owner.Lock()
	defer l.owner.Unlock()
	l.core.disk.imaging = false
}

// awaitDisk waits while too much has yet to be written.
func (l *life) awaitDisk() {
	l.owner.Lock()
	defer l.owner.Unlock()
	for l.core.disk.isFull() && !l.isOver() {
		l.less.Wait()
	}
}
