// Package wire encodes and decodes ZooKeeper's client protocol: frames and the records in them.
//
// Numbers are big-endian. A string or buffer is its length (4 bytes, -1 for
// null) and its bytes, a vector its count and its elements, a record its fields in
// order. A frame is its length and one message:
//
//	client: connect request, then request header (xid, op) + request record
//	server: connect response, then reply header (xid, zxid, error) + reply record
//
// A reply with xid -1 is a watch event. Every received length is checked against the available
// bytes before anything is allocated for it.
//
// The package knows nothing about connections, the tree, or time.
package wire
