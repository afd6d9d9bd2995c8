// Package preference orders instances for each slot at random, but alike for all who ask.
package preference

import "hash/fnv"

// Hash is the hash of an instance's ID, or of a slot's name.
func Hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return mix(h.Sum64())
}

// Of is how much a slot prefers an instance, by the hashes of both: the one with the greatest
// number comes first.
func Of(instance, slot uint64) uint64 { return mix(instance ^ slot) }

// mix is the finalizer of SplitMix64: each bit of the result depends on each bit of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
