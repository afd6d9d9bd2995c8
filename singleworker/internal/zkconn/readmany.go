package zkconn

import (
	"cmp"
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// Read is one reading of many, see ReadMany.
type Read struct {
	Path     string
	Children bool // list the node's children instead of reading its data
	Watch    bool // report the next change of what is read as an event, as GetW and ChildrenW do
}

func (r Read) op() string {
	if r.Children {
		return opNameChildren
	}
	return "get"
}

// ReadResult is the outcome of a Read.
type ReadResult struct {
	Data  []byte
	Names []string // of the children, in no particular order
	Stat  Stat     // not set for children
	Err   error
}

// ReadsOf lists reads of the data of nodes.
func ReadsOf(paths ...string) []Read {
	reads := make([]Read, len(paths))
	for i, path := range paths {
		reads[i].Path = path
	}
	return reads
}

// DataOf is the data of each node, and nil of one that does not exist. The first must exist. The
// error is that for the first node that was not read.
func DataOf(results []ReadResult) ([][]byte, error) {
	data := make([][]byte, len(results))
	for i, r := range results {
		if r.Err != nil && (i == 0 || !errors.Is(r.Err, ErrNoNode)) {
			return nil, r.Err
		}
		data[i] = r.Data
	}
	return data, nil
}

// Bounds of a request. The server hangs up on one of more than 1 MB, if nobody has configured less.
const (
	MaxReads     = 256 // of a ReadMany
	maxReadBytes = 128 << 10
)

// How many requests of one ReadMany are under way, and how many in the place of one if the server
// knows no bulk requests.
const (
	bulksAtOnce   = 4
	singlesAtOnce = 16
)

// ReadMany reads many nodes in few requests, 256 in each, of which at most four are under way. The
// results are in the order of reads, each with its own error, such as ErrNoNode. They are not of
// one moment: changes made meanwhile may be in some and not in others.
//
// A watch is set before its node is read, so that no change falls between, and at most one per
// node. A node that does not exist, or may not be read, is not watched. Unlike GetW's, such watches
// end with the connection, not with the session: who relies on them reads again after a Connected
// event.
//
// If a reply is longer than 8 MiB, its reads are made in smaller requests. A server may not know
// such requests, as ZooKeeper before 3.6; from then on, it is asked for each node by a separate
// request, and at most 64 of them are under way.
func (c *Conn) ReadMany(ctx context.Context, reads []Read) []ReadResult {
	if len(reads) == 0 || c.fitting(reads) == len(reads) {
		return c.readChunk(ctx, reads)
	}
	results := make([]ReadResult, len(reads))
	var chunks []int // the first of each
	for first := 0; first < len(reads); first += c.fitting(reads[first:]) {
		chunks = append(chunks, first)
	}
	task.Together(bulksAtOnce, len(chunks), func(i int) {
		first, end := chunks[i], len(reads)
		if i+1 < len(chunks) {
			end = chunks[i+1]
		}
		copy(results[first:end], c.readChunk(ctx, reads[first:end]))
	})
	return results
}

// fitting counts how many of the reads, at least one, fit in one request.
func (c *Conn) fitting(reads []Read) int {
	bytes := 0
	for i, r := range reads {
		const overhead = 30 // in the setWatches and the multiRead
		bytes += 2*(len(c.chroot)+len(r.Path)) + overhead
		if i > 0 && (i == MaxReads || bytes > maxReadBytes) {
			return i
		}
	}
	return len(reads)
}

// readChunk makes one request, or several if its reply is too long.
func (c *Conn) readChunk(ctx context.Context, reads []Read) []ReadResult {
	if len(reads) == 0 || c.session.Load().readsSingly() {
		return c.readSingly(ctx, reads)
	}
	results, err := c.readTogether(ctx, reads)
	half := len(reads) / 2
	switch {
	case errors.Is(err, ErrTooLong) && half > 0:
		return append(c.readChunk(ctx, reads[:half]), c.readChunk(ctx, reads[half:])...)
	case err == nil && results == nil:
		return c.readSingly(ctx, reads)
	case err != nil:
		results = make([]ReadResult, len(reads))
	}
	if failed := (*OpError)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	for i, r := range reads {
		if err := cmp.Or(results[i].Err, err); err != nil {
			results[i].Err = &OpError{Op: r.op(), Path: r.Path, Err: err}
		}
	}
	return results
}

// readTogether makes one request. It returns neither answers nor an error if the server does not
// know such requests.
func (c *Conn) readTogether(ctx context.Context, reads []Read) ([]ReadResult, error) {
	full := make([]Read, len(reads))
	for i, r := range reads {
		full[i] = Read{c.chroot + r.Path, r.Children, r.Watch}
	}
	var answers []ReadResult // may still be written when ctx has ended
	err := c.call(ctx, opNameBulk, reads[0].Path, func(s *session) (err error) {
		answers, err = s.readMany(full)
		if errors.Is(err, errUnimplemented) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// readSingly makes a request for each node.
func (c *Conn) readSingly(ctx context.Context, reads []Read) []ReadResult {
	results := make([]ReadResult, len(reads))
	task.Together(singlesAtOnce, len(reads), func(i int) {
		if r := reads[i]; r.Children {
			results[i].Names, _, results[i].Err = c.children(ctx, r.Path, r.Watch)
		} else {
			results[i].Data, results[i].Stat, results[i].Err = c.get(ctx, r.Path, r.Watch)
		}
	})
	return results
}
