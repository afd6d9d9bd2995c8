package durable

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

var all = flag.Bool("crash.all", false, "all crashes instead of a sample")

var epoch = time.UnixMilli(1_700_000_000_000)

const zkTick = time.Second

// A picture is a state as a snapshot has it.
type picture struct {
	image *txnlog.Snapshot
	nodes []txnlog.Node
}

func pictureOf(s *tree.State) picture {
	image, nodes := s.Clone().Image()
	return picture{image, slices.Collect(nodes)}
}

// A service does with a store as zkdev does, without connections.
type service struct {
	*store

	state *tree.State
	told  int64 // zxid of the latest transaction that clients know of
}

// recovered starts a service.
func recovered(on fileSystem) (*service, error) {
	s := &service{store: newStore(on, slog.New(slog.DiscardHandler)), state: tree.New(epoch, zkTick)}
	s.imageBytes, s.logBytes = 1500, 500
	found := false
	epoch, err := s.Recover(func(zxid int64, image *txnlog.Snapshot, nodes []txnlog.Node) (err error) {
		found = true
		s.state, err = tree.Load(epoch, zkTick, zxid, image, nodes)
		return err
	}, func(txn *txnlog.Txn) error { return s.state.Replay(txn) })
	if err != nil {
		return nil, err
	}
	if epoch != 0 {
		s.state.BeginEpoch(epoch)
	}
	if !found {
		image, nodes := s.state.Image()
		err = s.Snapshot(0, image, nodes)
	}
	s.told = s.state.Zxid() // whoever connects sees it
	return s, err
}

// work writes until it is done or the disk has crashed. history has the state after each
// transaction.
func (s *service) work(random *rand.Rand, batches int, history map[int64]picture) error {
	var sessions []int64
	for of := range s.state.Clone().Sessions() {
		sessions = append(sessions, int64(of))
	}
	for range batches {
		var records []byte
		first := s.state.Zxid() + 1
		for range 1 + random.IntN(4) {
			txn := tree.Logged(s.write(random, &sessions))
			records = txnlog.AppendTxn(records, &txn)
			history[s.state.Zxid()] = pictureOf(s.state)
		}
		if err := s.Append(first, records); err != nil {
			return err
		}
		s.told = s.state.Zxid()
		if s.Due() {
			image, nodes := s.state.Clone().Image()
			if err := s.Snapshot(s.told, image, nodes); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *service) write(random *rand.Rand, sessions *[]int64) []tree.Txn {
	now := epoch.Add(time.Duration(s.state.Zxid()) * time.Millisecond)
	switch k := random.IntN(12); {
	case len(*sessions) == 0 || k == 0:
		id, out := s.state.OpenSession(now, time.Minute)
		*sessions = append(*sessions, id)
		return out.Txns
	case k == 1:
		id := (*sessions)[0]
		*sessions = (*sessions)[1:]
		return s.state.CloseSession(now, id, false).Txns
	}
	r := wire.Request{
		Header: wire.Header{Op: wire.OpCreate}, Path: fmt.Sprintf("/%c", 'a'+random.IntN(6)), Version: -1,
		Data: make([]byte, random.IntN(60)), Flags: int32(random.IntN(2)),
		ACL: []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}},
	}
	if random.IntN(2) == 0 {
		r.Op = []wire.Op{wire.OpSetData, wire.OpDelete}[random.IntN(2)]
	}
	client := tree.Client{Session: (*sessions)[random.IntN(len(*sessions))]}
	return s.state.Apply(now, client, &r).Txns
}

// TestCrashes crashes a server at each of its calls to the file system, and looks at each disk that
// may be left. The server that starts there has all that the first one has told its clients, and
// perhaps more that it was about to tell: the states of some transaction, with nothing in between
// missing. That holds if it crashes, too, while it starts, and it goes on from there.
func TestCrashes(t *testing.T) {
	t.Parallel()
	stride, batches, again := 23, 24, 150 // of the bytes lost, of the work, of the disks that crash again
	if *all {
		stride, batches, again = 2, 40, 300
	}
	history := map[int64]picture{0: pictureOf(tree.New(epoch, zkTick))}
	images := 0
	for crash := 1; ; crash++ {
		disk := newCrashFS(crash)
		told, err := lived(disk, batches, history)
		if err == nil {
			break // it has done everything
		}
		for _, image := range disk.images(stride) {
			if images++; images%again == 0 {
				crashWhileStarting(t, image, told, history, crash)
			}
			s := judge(t, image, told, history, crash)
			if images%5 == 0 {
				goesOn(t, s, image, crash)
			}
		}
	}
	t.Logf("%d disks after a crash, %d transactions", images, len(history))
	if images < 1000 || *all && images < 10_000 {
		t.Errorf("%d disks are too few", images)
	}
}

// lived runs a service until its disk crashes. It returns the zxid that clients know then.
func lived(disk *crashFS, batches int, history map[int64]picture) (told int64, err error) {
	s, err := recovered(disk)
	if err == nil {
		err = s.work(rand.New(rand.NewPCG(1, 2)), batches, history)
	}
	if s != nil {
		told = s.told
	}
	return told, err
}

// judge starts a service and compares its state with the knowledge of clients.
func judge(t *testing.T, disk *crashFS, told int64, history map[int64]picture, crash int) *service {
	t.Helper()
	s, err := recovered(disk)
	if err != nil {
		t.Fatalf("crash at call %d: %v, with the files %v", crash, err, sizes(disk))
	}
	want, ok := history[s.state.Zxid()]
	if s.state.Zxid() < told || !ok || !reflect.DeepEqual(pictureOf(s.state), want) {
		t.Fatalf("crash at call %d: the state of %#x, clients know %#x, with the files %v\n%+v\nwant\n%+v",
			crash, s.state.Zxid(), told, sizes(disk), pictureOf(s.state), want)
	}
	return s
}

// goesOn writes on, and starts once more.
func goesOn(t *testing.T, s *service, disk *crashFS, crash int) {
	t.Helper()
	later := map[int64]picture{}
	if err := s.work(rand.New(rand.NewPCG(3, 4)), 3, later); err != nil {
		t.Fatalf("crash at call %d: the next server: %v, with the files %v", crash, err, sizes(disk))
	}
	next, err := recovered(disk)
	if err != nil || next.state.Zxid() != s.told || !reflect.DeepEqual(pictureOf(next.state), later[s.told]) {
		t.Fatalf("crash at call %d: the server after the next: %v, with the files %v", crash, err, sizes(disk))
	}
}

// crashWhileStarting crashes the next server at each of its calls, too.
func crashWhileStarting(t *testing.T, disk *crashFS, told int64, history map[int64]picture, crash int) {
	t.Helper()
	for budget := 0; ; budget++ {
		second := disk.copy(budget)
		s, err := recovered(second)
		if err == nil {
			return
		}
		if !errors.Is(err, errCrashed) {
			t.Fatalf("crash at call %d, and at %d of the start: %v", crash, budget, err)
		}
		if s != nil {
			told = max(told, s.told)
		}
		const some = 7
		for _, image := range second.images(some) {
			goesOn(t, judge(t, image, told, history, crash), image, crash)
		}
	}
}

// TestKilledAndCrashed kills a server at each of its calls, so that all its writes are there, but
// perhaps not on disk. The next one tells clients of them. Then the machine crashes.
func TestKilledAndCrashed(t *testing.T) {
	t.Parallel()
	history := map[int64]picture{0: pictureOf(tree.New(epoch, zkTick))}
	for crash := 1; ; crash++ {
		disk := newCrashFS(crash)
		if _, err := lived(disk, 12, history); err == nil {
			break
		}
		disk.budget = -1
		next, err := recovered(disk)
		if err != nil {
			t.Fatal(err)
		}
		const some = 50
		for _, image := range disk.images(some) {
			judge(t, image, next.told, history, crash)
		}
	}
}

// TestDamagedSnapshots damages all snapshots but the oldest: the logs since that one are there. If
// all are damaged, nothing is guessed. Nor is it if a log is missing, or damaged in its middle.
func TestDamagedSnapshots(t *testing.T) {
	t.Parallel()
	history := map[int64]picture{}
	lively := func() (*crashFS, *service, files) {
		disk := newCrashFS(-1)
		s, err := recovered(disk)
		if err == nil {
			err = s.work(rand.New(rand.NewPCG(1, 2)), 100, history)
		}
		have, listErr := s.list()
		if err != nil || listErr != nil || len(have.images) != keptImages || len(have.logs) < 3 || have.logs[0] == 1 {
			t.Fatalf("%+v, %v, %v", have, err, listErr)
		}
		return disk, s, have
	}
	disk, s, have := lively()
	for _, zxid := range have.images[1:] {
		of := disk.names[imageName(zxid)]
		of.data = of.data[:len(of.data)-20]
	}
	next, err := recovered(disk)
	if err != nil || next.state.Zxid() != s.told || !reflect.DeepEqual(pictureOf(next.state), history[s.told]) {
		t.Errorf("with half snapshots: %v, want the state of %#x", err, s.told)
	}
	for name, damage := range map[string]func(disk *crashFS, have files){
		"all snapshots": func(disk *crashFS, have files) {
			for _, zxid := range have.images {
				disk.names[imageName(zxid)].data[30]++
			}
		},
		"a log is missing": func(disk *crashFS, have files) {
			delete(disk.names, logName(have.logs[len(have.logs)-2]))
			for _, zxid := range have.images[1:] {
				delete(disk.names, imageName(zxid))
			}
		},
		"an earlier log": func(disk *crashFS, have files) {
			of := disk.names[logName(have.logs[len(have.logs)-2])]
			of.data[len(of.data)-9]++
			for _, zxid := range have.images[1:] {
				delete(disk.names, imageName(zxid))
			}
		},
		"the beginning of the last log": func(disk *crashFS, have files) {
			disk.names[logName(have.logs[len(have.logs)-1])].data[0]++
		},
		"far from the end of the last log": func(disk *crashFS, have files) {
			of := disk.names[logName(have.logs[len(have.logs)-1])]
			of.data[40]++
			of.data = append(of.content(), slices.Repeat([]byte{1}, maxTorn)...)
		},
	} {
		disk, _, have := lively()
		damage(disk, have)
		if _, err := recovered(disk); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		}
	}
}

func (c *crashFS) copy(budget int) *crashFS {
	twin := newCrashFS(budget)
	for name, f := range c.names {
		twin.names[name] = &inode{data: slices.Clone(f.data), synced: slices.Clone(f.synced), size: f.size}
		twin.onDisk[name] = twin.names[name]
	}
	return twin
}

func sizes(disk *crashFS) map[string]int {
	sizes := map[string]int{}
	for name, f := range disk.names {
		sizes[name] = len(f.data)
	}
	return sizes
}
