// Package notify tells people and programs about jobs that fail, miss ticks, are late or hang, and
// about their recovery: by webhook, Slack, DingTalk, WeCom or mail.
//
//	n, err := notify.New(notify.Config{
//		Group:   admin.Config{Servers: "zk1:2181/prod", ServerType: "billing"},
//		Targets: map[string]notify.Sender{"ops": &notify.Slack{URL: notify.Secret(os.Getenv("SLACK_URL"))}},
//		Rules:   []notify.Rule{{Jobs: "report*", To: []string{"ops"}}},
//	})
//	err = n.Run(ctx) // beside Manager.Run, in every instance
//
// Every instance of the application runs a Notifier, and one of them, which they elect, sends. It
// follows the whole group, so it also tells about jobs of instances that have died: of a late job
// within seconds after its job.Job.AlarmAfter. "swctl notify" is the same as a process.
//
// A job can name targets itself, in job.Job.Notify: that comes beside the Rules, which it does not
// replace.
//
// # Episodes
//
// The first failure of a job begins an episode, which is told once. Further failures are counted.
// The next success ends the episode, which is told once, too, with the count ([Recovered]). There
// is one episode per job, or shard, and [Kind]. An episode that began again before anybody was told
// that it was over continues. An attempt that fails and is retried is not a failure, and neither is
// an interrupted run, which is run again.
//
// Episodes within [Config.Gather] are collected in one message, and each target gets at most one
// message per [Config.Every]: it lists the first 20 episodes and counts the others. A [Webhook]
// gets all of them.
//
// # Promises
//
// Episodes are recorded in ZooKeeper before they are sent, and deliveries afterwards, together with
// the position up to which the group's changes were read. If the sender dies, another instance
// continues there. So each episode reaches each target at least once, and exactly once unless the
// sender dies, or loses ZooKeeper, between a delivery and its record, or the target did not confirm
// its receipt. Item.ID is then the same: receivers can drop duplicates.
//
// A target that does not answer is tried again, after 5 seconds to 5 minutes, and does not delay
// the others. What waits for it is bounded by the number of jobs: if more than 4 episodes of one
// kind and job wait, the oldest is dropped, which is logged and counted in [Stats]. A Notifier that
// runs for the first time tells about what happens from then on.
//
// If no instance lives, nobody tells anything. [Config.Pings] cover that: they tell a service such
// as healthchecks.io, which raises an alarm when they stop.
//
// # How it works
//
// A latch elects the sender. Each write of the book checks the version of its head, which a new
// sender writes first, and each message follows a write: so a deposed sender can record nothing,
// and send only messages that are already in flight. The book is 64 nodes of 500 episodes each, so
// 10,000 failing jobs with names and errors of any length stay below the 1 MB of a node. It has,
// of each slot that ever failed, the numbers of the last failure that it took in: a new sender
// resumes at the cursor, sees later events again, and drops those. Job.Notify is not in the book:
// the sender reads all jobs once before it resumes. A first sender's cursor is the transaction
// that created its record.
package notify
