package offset

import (
	"iter"
	"maps"
	"time"
)

// Peer is an instance's published view of its clock.
type Peer struct {
	Off   time.Duration // how far it is ahead of ZooKeeper's; 0 also if that is not known
	Wrong bool          // the instance takes no jobs because of that
}

// Behind is how far the clock of an instance is behind the group's time, which ZooKeeper's clock is
// behind by serverOff, up to the limit. Without one, if it is zero or less, it counts in full.
func (p Peer) Behind(serverOff, limit time.Duration) time.Duration {
	behind := max(0, serverOff-p.Off)
	if limit > 0 {
		behind = min(behind, limit)
	}
	return behind
}

// OfServer is by how much ZooKeeper's clock is behind the clocks of most instances, if it agrees
// with none within the limit. Then ZooKeeper's is the one that is wrong. It is asked for one whose
// offset is own, and is found to be beyond the limit. A single instance cannot tell.
func OfServer(limit, own time.Duration, others iter.Seq[Peer]) (off time.Duration, agreed bool) {
	off = own
	agree, all := 1, 1
	for theirs := range others {
		all++
		if theirs.Off.Abs() <= limit {
			return 0, false
		}
		if (theirs.Off - own).Abs() > limit {
			continue
		}
		agree++
		if theirs.Off.Abs() < off.Abs() {
			off = theirs.Off
		}
	}
	if agree == 1 || 2*agree <= all {
		return 0, false
	}
	return off, true
}

// DefaultLimit is how far clocks may differ: the default of the instances, and for who does not
// know their configuration.
const DefaultLimit = 30 * time.Second

// OfGroup is OfServer for a program that is not an instance, and knows each one's Peer, by ID.
func OfGroup(limit time.Duration, instances map[string]Peer) (off time.Duration, agreed bool) {
	for self, own := range instances {
		if own.Off.Abs() <= limit {
			return 0, false
		}
		others := maps.Clone(instances)
		delete(others, self)
		theirs, agree := OfServer(limit, own.Off, maps.Values(others))
		if agree && (!agreed || theirs.Abs() < off.Abs()) {
			off, agreed = theirs, true
		}
	}
	return off, agreed
}
