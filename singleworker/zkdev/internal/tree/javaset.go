package tree

import (
	"slices"
	"unicode/utf16"
)

// A javaSet lists its elements in the order of Java's HashSet. ZooKeeper lists children and deletes
// the ephemeral nodes of a session in that order, and a client that forgets to sort should fail
// here rather than in production. The zero value is an empty set.
type javaSet[K comparable] struct {
	places  map[K]place
	next    int
	buckets int // size of HashSet's table; never shrinks
	listed  []K // cached list, or nil
}

type place struct {
	hash  uint32
	order int // of insertion; the order within a bucket
}

// Initial table sizes of ZooKeeper's sets.
const (
	childBuckets   = 8
	defaultBuckets = 16
)

func (s *javaSet[K]) len() int { return len(s.places) }

func (s *javaSet[K]) has(k K) bool {
	_, ok := s.places[k]
	return ok
}

// add adds an element; hash is its Java hashCode.
func (s *javaSet[K]) add(k K, hash uint32) {
	if s.has(k) {
		return
	}
	if s.places == nil {
		s.places = map[K]place{}
		s.buckets = max(s.buckets, childBuckets)
	}
	s.places[k] = place{hash: hash ^ hash>>16, order: s.next}
	s.next++
	if len(s.places) > s.buckets/4*3 {
		s.buckets *= 2
	}
	s.listed = nil
}

func (s *javaSet[K]) remove(k K) {
	delete(s.places, k)
	s.listed = nil
}

// list returns the elements in order. The caller must not change the list.
func (s *javaSet[K]) list() []K {
	if s.listed == nil {
		s.listed = s.order(s.buckets)
	}
	return s.listed
}

// cloned returns the elements in the order of a clone of the HashSet, whose table is only as large
// as its elements require.
func (s *javaSet[K]) cloned() []K {
	buckets := 1
	for buckets < len(s.places)*4/3+1 {
		buckets *= 2
	}
	source := s.list()
	rank := make(map[K]int, len(source))
	for i, k := range source {
		rank[k] = i
	}
	clone := slices.Clone(source)
	slices.SortFunc(clone, func(a, b K) int {
		if c := bucket(s.places[a].hash, buckets) - bucket(s.places[b].hash, buckets); c != 0 {
			return c
		}
		return rank[a] - rank[b]
	})
	return clone
}

func (s *javaSet[K]) order(buckets int) []K {
	list := make([]K, 0, len(s.places))
	for k := range s.places {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b K) int {
		pa, pb := s.places[a], s.places[b]
		if c := bucket(pa.hash, buckets) - bucket(pb.hash, buckets); c != 0 {
			return c
		}
		return pa.order - pb.order
	})
	return list
}

func bucket(hash uint32, buckets int) int { return int(hash & uint32(buckets-1)) }

// hashString is String.hashCode.
func hashString(s string) uint32 {
	var h uint32
	for _, r := range s {
		if r < 0x10000 {
			h = 31*h + uint32(r)
			continue
		}
		high, low := utf16.EncodeRune(r)
		h = 31*(31*h+uint32(high)) + uint32(low)
	}
	return h
}
