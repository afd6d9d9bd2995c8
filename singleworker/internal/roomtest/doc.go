// Package roomtest is the test kit of an instance's rooms (session, member, catalog, owner,
// journal, keeper and coord): a server and a second connection that edits nodes, in virtual time; a
// loop whose notices are recorded; the rooms up to the journal, wired without a coordinator; and a
// runner that records its calls.
package roomtest
