// Package member is the room of an instance that answers whether the instance is part of the group,
// and who else is.
//
// It creates what joining takes (the roots, the ephemeral node, the declared jobs), publishes the
// instance's record, follows operators' orders and the election of latch mode, decides when the
// instance takes no further slots, and cleans up after members that have died.
package member
