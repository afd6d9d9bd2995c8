// Package journal is the room of an instance that keeps the records of the slots that it owns: it
// reads and writes their tick and history nodes, and follows what operators request of them.
//
// It is the only writer of these nodes while a slot is owned. A commit checks that the slot still is
// owned, the spec is the one that the decision is based on, and the record is what it was; see
// [Journal.Commit].
package journal
