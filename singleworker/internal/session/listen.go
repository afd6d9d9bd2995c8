package session

import (
	"context"
	"errors"
	"path"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// A Listener follows a signal, see package signals: the records that it covers need not be watched.
type Listener struct {
	loop *Loop
	node zkconn.Op // makes its node
	told func(about string)

	known   bool // it was read in this connection, and is watched
	czxid   int64
	version int32
	reading OnePerTime
	missed  bool // it has changed while this instance had not joined
	waits   bool // its node is being made, or it is read again later
}

// Listen returns a listener for the signal whose node an operation makes. told is called on the
// loop with the name of the changed record: with "" if anything may have changed, because a change
// was not seen, or because the signal cannot be read. Then it is called once in a sync period.
func Listen(l *Loop, node zkconn.Op, told func(about string)) *Listener {
	return &Listener{loop: l, node: node, told: told}
}

// Joined has the signal be followed in a connection. If it was read there with a watch, before all
// that it tells of, it was read as given. If not, anything may have changed.
func (s *Listener) Joined(read *zkconn.ReadResult) {
	missed := s.missed
	s.known, s.missed = false, false
	if read != nil && read.Err == nil {
		s.known, s.czxid, s.version = true, read.Stat.Czxid, read.Stat.Version
	}
	if !s.known || missed {
		s.Hear()
	}
}

// Hear reads the signal, which has changed.
func (s *Listener) Hear() {
	if !s.loop.Joined() {
		s.missed = true
		return
	}
	if !s.reading.Begin() {
		return
	}
	s.loop.Read([]zkconn.Read{{Path: s.node.Path(), Watch: true}}, func(results []zkconn.ReadResult) {
		again := s.reading.End()
		s.take(results[0])
		if again {
			s.Hear()
		}
	})
}

func (s *Listener) take(r zkconn.ReadResult) {
	was := *s
	s.known, s.czxid, s.version = r.Err == nil, r.Stat.Czxid, r.Stat.Version
	follows := was.known && s.czxid == was.czxid
	switch {
	case !s.known:
		s.restore(r.Err)
	case follows && s.version == was.version:
	case follows && s.version == was.version+1:
		s.told(string(r.Data))
	default:
		s.told("")
	}
}

// restore has a signal be read again that could not be.
func (s *Listener) restore(why error) {
	if s.waits {
		return
	}
	s.waits = true
	s.loop.Async("restore signal", func(ctx context.Context) func() {
		if errors.Is(why, zkconn.ErrNoNode) {
			why = s.makeNode(ctx)
		}
		if why != nil {
			s.loop.WaitToAskAgain(ctx)
		}
		return func() {
			s.waits = false
			if why != nil && !zkconn.IsUnknown(why) && s.loop.Joined() {
				s.warn(why)
				s.told("")
			}
			s.Hear()
		}
	})
}

func (s *Listener) makeNode(ctx context.Context) error {
	err := s.loop.Conn.EnsureRoot(ctx, path.Dir(s.node.Path()))
	if err == nil {
		_, err = s.loop.Conn.Multi(ctx, s.node)
	}
	if errors.Is(err, zkconn.ErrNodeExists) {
		return nil
	}
	return err
}

// warn says once, for all signals of one parent, that they tell nothing.
func (s *Listener) warn(why error) {
	if parent := path.Dir(s.node.Path()); !s.loop.silent[parent] {
		s.loop.silent[parent] = true
		s.loop.Log.Error("not told of changes: a node cannot be read; what may have changed is read once in a sync period", "path", s.node.Path(), "err", why)
	}
}
