package txns

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Restore is the replacement of the servers' data by older data, or by nothing.
type Restore struct {
	At      time.Time // of the last transaction before it
	Through int64     // zxid of the last transaction that the servers still had; 0 if they had none
	Lost    int       // transactions
}

// restoreShift is where the number of restores before a transaction stands in the zxids of a joined
// log.
const restoreShift = 48

// ReadRestored reads the logs of a group whose servers were given older data, or none, and ran on
// from there. Each of times is the directories of all servers, as Read takes them, as they were
// when the data was replaced, and in the end.
//
// Claims that were lost are marked, and lost rows are left out. Zxids may have been used again:
// those in the result have the number of restores before them in their highest 16 bits. Counts
// cover the transactions that the servers have in the end.
func ReadRestored(group string, times ...[]string) (*Log, error) {
	var joined *Log
	for k, dirs := range times {
		log, err := Read(group, dirs...)
		if err != nil {
			return nil, fmt.Errorf("after %d restores: %w", k, err)
		}
		if joined != nil {
			log.follow(joined)
		}
		joined = log
	}
	return joined, nil
}

// follow adds the log from before the servers' data was replaced.
func (l *Log) follow(before *Log) {
	alone := *l
	if l.Times = before.Times; l.Times == nil {
		l.Times = []*Log{before}
	}
	alone.Claims, alone.Owners = slices.Clone(l.Claims), maps.Clone(l.Owners)
	l.Times = append(l.Times, &alone)
	through, lost := l.common(before)
	l.Restores = append(slices.Clone(before.Restores), Restore{At: before.end, Through: through, Lost: lost})
	mark := int64(len(l.Restores)) << restoreShift
	past := make(map[string]*Claim, len(before.Claims))
	for _, c := range before.Claims {
		past[c.Run] = c
	}
	for _, c := range l.Claims {
		was := past[c.Run]
		delete(past, c.Run)
		if c.GoneAt > through {
			c.GoneAt |= mark
		}
		if was == nil {
			c.Zxid |= mark
			continue
		}
		c.Zxid, c.GoneAt = was.Zxid, cmp.Or(was.GoneAt, c.GoneAt)
		if was.result > through {
			c.GoneAt = cmp.Or(c.GoneAt, mark)
		}
	}
	for _, c := range before.Claims {
		if past[c.Run] != nil {
			gone := *c
			gone.Lost, gone.GoneAt = true, cmp.Or(c.GoneAt, mark)
			l.Claims = append(l.Claims, &gone)
		}
	}
	slices.SortStableFunc(l.Claims, func(a, b *Claim) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Zxid, b.Zxid)) })
	for _, v := range before.Violations {
		if !slices.Contains(l.Violations, v) {
			l.Violations = append(l.Violations, v)
		}
	}
	for _, loss := range before.Losses {
		if !slices.Contains(l.Losses, loss) {
			l.Losses = append(l.Losses, loss)
		}
	}
	l.followOwners(before)
	l.Dropped += before.Dropped
}

// common finds the last transaction up to which two logs are the same, and counts the former log's
// transactions after it.
func (l *Log) common(before *Log) (through int64, lost int) {
	differ := len(before.order)
	for k, zxid := range before.order {
		if k >= len(l.order) || l.order[k] != zxid || l.sums[zxid] != before.sums[zxid] {
			differ = k
			break
		}
		through = zxid
	}
	return through, len(before.order) - differ
}

// followOwners has nobody own anything when the data is replaced.
func (l *Log) followOwners(before *Log) {
	for slot, past := range before.Owners {
		after := slices.DeleteFunc(slices.Clone(l.Owners[slot]), func(o Ownership) bool { return !o.At.After(before.end) })
		gone := Ownership{At: before.end, Gone: len(after) == len(l.Owners[slot])}
		l.Owners[slot] = append(append(past, gone), after...)
	}
}

// Restore is the number of the restore with which the claim, or its result, was lost, counted from
// 1. It is 0 if that was not lost, or by the servers themselves.
func (c *Claim) Restore() int {
	if c.GoneAt&(1<<restoreShift-1) != 0 {
		return 0 // a transaction has shown it
	}
	return int(c.GoneAt >> restoreShift)
}
