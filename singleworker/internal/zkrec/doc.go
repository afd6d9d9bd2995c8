// Package zkrec knows every path and every record that singleworker keeps in
// ZooKeeper, and nothing else: no connection, no clock, no other instance.
//
// The tree of one group of instances (a server type):
//
//	/{serverType}
//	  {job}                       the job spec: plain cron text, or a JSON object
//	    register/{sid}            empty: this instance has the handler
//	    alive                     the owner record, or empty when nobody owns the job
//	      {sid}                   the owner's heartbeat: decimal Unix milliseconds
//	    tick                      the last claim and its result
//	    history                   what became of the last ticks
//	    requests/{id}             what operators ask the owner for
//	    alarm                     the last tick that was reported missing
//	    shards                    of a sharded job: up to which tick all shards are done
//	      {k}/alive, tick ...     of shard k, instead of the job's own
//	  _instances/{sid}            ephemeral: one running instance
//	  _disabled/{sid}             an operator's order that it own nothing
//
// register, alive and the decimal heartbeats are the layout of the published
// SingleWorker sample, so that its trees are read as they are.
//
// Readers accept what older writers wrote, keep fields that they do not know
// (a spec that is read, changed and written loses nothing), and refuse a
// record whose schema is newer than theirs with a [SchemaError] rather than
// guess. Every form is pinned by a golden file.
package zkrec
