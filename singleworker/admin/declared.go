package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// declaredList is what some live instances publish of the jobs that they declare.
type declaredList struct {
	by   []Declaration     // each of these instances, without a Fingerprint
	jobs map[string]string // the fingerprints by job; "" if they are not published
}

// declared reads what live instances declare. all is false if one of them does not say, or they
// have fewer lists than are asked for, which are not read then.
func (m members) declared(ctx context.Context, live map[string]Instance, least int) (lists []declaredList, all bool, err error) {
	hashes, reads := make(map[string]int), []zkconn.Read(nil)
	all = true
	for sid, i := range live {
		hash := i.place.record.Handlers
		if hash == "" {
			all = false
			continue
		}
		k, known := hashes[hash]
		if !known {
			k = len(lists)
			hashes[hash], lists, reads = k, append(lists, declaredList{}), append(reads, zkconn.Read{Path: m.tree.HandlerList(hash)})
		}
		lists[k].by = append(lists[k].by, Declaration{InstanceID: sid, Program: i.Program})
	}
	if len(lists) < least {
		return nil, false, nil
	}
	results, err := m.readMany(ctx, reads)
	if err != nil {
		return nil, false, err
	}
	for hash, k := range hashes {
		jobs, known := zkrec.ParseDeclared(hash, results[k].Data)
		lists[k].jobs, all = jobs, all && known
	}
	return lists, all, nil
}

// differing lists, by job, who declares it, if not all do in the same way.
func differing(lists []declaredList) map[string][]Declaration {
	first, differ := make(map[string]string), make(map[string][]Declaration)
	for _, list := range lists {
		for job, mark := range list.jobs {
			if was, found := first[job]; !found || was == "" {
				first[job] = mark
			} else if mark != "" && mark != was {
				differ[job] = nil
			}
		}
	}
	for job := range differ {
		for _, list := range lists {
			mark := list.jobs[job]
			for _, d := range list.by {
				if d.Fingerprint = mark; mark != "" {
					differ[job] = append(differ[job], d)
				}
			}
		}
		slices.SortFunc(differ[job], func(a, b Declaration) int { return cmp.Compare(a.InstanceID, b.InstanceID) })
	}
	return differ
}

// setDeclarations notes that instances declare the job differently, if they do.
func (s *JobStatus) setDeclarations(differ map[string][]Declaration, now time.Time) {
	if s.Declarations = differ[s.Name]; s.Declarations != nil {
		s.SetConditions(now)
	}
}

// conflict names two instances that declare the job differently, and whose versions do not say
// which of them holds. It is empty if there are none.
func (s *JobStatus) conflict() string {
	for i, a := range s.Declarations {
		for _, b := range s.Declarations[:i] {
			if order, ok := zkrec.CompareVersions(a.Program, b.Program); a.Fingerprint != b.Fingerprint && (!ok || order == 0) {
				text := fmt.Sprintf("%s and %s declare it differently", b, a)
				if s.DeclaredBy != "" {
					text += "; it is as " + s.DeclaredBy + " did"
				}
				return text
			}
		}
	}
	return ""
}
