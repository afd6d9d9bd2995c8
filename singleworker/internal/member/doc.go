// Package member is the room of an instance that answers whether the instance is part of the group,
// and who else is.
//
// It creates the nodes that joining takes (the roots, the ephemeral node, the declared jobs),
// publishes the instance's record, follows operators' orders and the election of latch mode,
// decides when the instance takes no further slots, and cleans up after members that have died.
//
// # The list of instances
//
// A list of names does not show that a node was deleted and created again by another incarnation.
// Its pzxid, the last transaction that created or deleted any node below _instances, does: if that
// is the same at two readings, each node is the same at both and at all times in between, when its
// record was read, and a node's incarnation never changes. If the pzxid or the connection is
// another, every record is read again. So rule (a) of package lease does not rest on watches. The
// other fields of records and orders (who takes no slots, limits, session timeouts) may be older
// than the list only while a watch event is on its way: the server sends it before it answers a
// reading that was made after the change, and it is taken in before that answer ([Roster]). At
// least once in 60 sync periods everything is read again.
//
// A process that was stopped for longer than its session may find its successor's node, under the
// same path and with the same version. So every change of an instance's node checks the version of
// _instances, which grows with every instance that joins, as it was before the node was read and
// found to belong to the present session.
//
// An instance that starts under an ID whose node is another incarnation's waits for the end of
// that session, up to 3.5 session timeouts. A dead session can outlast its timeout. Servers that
// restart, or get another leader, give each session all of its time again: that breaks every
// connection, and the wait begins again with the next one. A server that joins the others again
// has the leader renew the sessions that began while it was away (ZooKeeper 3.8: 13.5 s after a
// kill instead of 8.8 s, at a timeout of 8 s). That breaks no connection, so the wait covers one
// of them at the worst moment.
//
// # Handlers
//
// An instance publishes its handlers before it appears: a sorted list in _handlers/{hash}, named by
// the beginning of its SHA-256, and compressed with gzip if it is longer than 256 KiB: some 26,000
// names. Lines that begin with a tab name the jobs that it declares. Its record names the hash, in
// a transaction that checks that the list is there. Instances of one release share one list, so a
// join costs the others one list and one record. A list that no live record names, and that is more
// than a day old by ZooKeeper's clock, is removed by an instance that joins, in a transaction that
// checks that no other one has joined since the records were read. A handler that is registered
// later changes the list: the new one is published, then named. A list that was there already is
// written again, so that an instance that is about to remove it finds another version. If the
// session is lost meanwhile, the next join publishes the list that is valid then, and the sync
// after it compares the record with it.
//
// # Closed instances
//
// An instance takes no slots when it leaves, when its program drains it, when its clock is wrong,
// or by an operator's order for it or its host. The others learn of the first three from its
// record, which it writes before it offers anything. Orders are read and watched by everybody
// together with the group, so nobody offers to an instance that has not heard of its order yet. An
// order that names an incarnation binds only that one, and the next incarnation, or a survivor
// that cleans up, removes it. An unreadable order binds every start: someone created it manually.
// A closed instance begins no runs, offers idle slots to the least loaded instance, and the rest
// when their runs have ended. It stays in the group. Nobody waits for an instance to confirm that
// its order was withdrawn.
//
// An order for one job or a host is a node below _excluded that is named by the hash of its
// target. So the meaning of a name never changes: only the list is watched, and each node is read
// once. There are at most 1,000. They are read before an instance appears, because it may take an
// offer before it has read the group.
//
// # Latch mode
//
// An instance that does not lead is closed, and the leader is the only open one, so its share is
// everything. A leader that joins with a new session begins as a standby. After a broken
// connection the term usually resumes within the session, so the jobs stay where they are for one
// sync period. An instance that leaves, or is told to own nothing, gives up its place in the queue
// at once. With Config.LatchPath the queue is elsewhere, and a contender that is no instance of
// the group may lead: then every instance is closed. The path is part of the mode, as instances
// with different paths would have two leaders. Modes do not mix: of two instances the later one
// sees the other's mode and leaves, looks again, without a node, until the other's session would
// be over if that instance had died, and then ends.
//
// # Cleaning up
//
// Survivors remove the nodes of killed instances when those have been gone for ten session
// timeouts, by the survivor's monotonic clock, not counting time without a connection:
// registrations, orders for that incarnation, and, at jobs that nobody else can run, heartbeats
// and owner records. Those are emptied as they would be taken over. Each survivor has a rank for
// each dead instance, by a hash, waits one session timeout longer than the one before it, and
// removes no registrations if an instance has joined since. Of an instance that nobody saw die,
// the first survivor finds the registrations when it becomes the first, and once in 60 sync
// periods. An instance whose registration was removed manually writes it again when it reads the
// job again.
//
// # Clocks
//
// An instance publishes its offset when it has changed by 100 ms, not more often than every five
// sync periods. Deputies and the dead man's switch grant an owner whose clock is behind that much
// more time, up to MaxClockOffset, so it keeps its jobs and runs them late. [Clock] is the group's
// time: deputies go by Now, the best guess, as the transaction of a take shows them the time once
// more, and the dead man's switch by Certain, the worst end of the interval, and by the clock of
// each instance that takes jobs. Nothing is certain to an instance that is in state wrong_clock,
// or has compared its clock with nothing yet: it does that when it has joined. A clock is found to
// be wrong within the seconds in which the instances tell each other, so the election of a server
// with a wrong clock stops the jobs for no longer. A single instance cannot tell which clock is
// wrong, and claims nothing. An instance with a wrong clock leaves the election of latch mode, and
// its record says wrong_clock. Older versions take a state that they do not know for closed.
package member
