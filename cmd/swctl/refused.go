package main

import (
	"errors"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// check refuses offline what the library would refuse.
func (c *call) check(job admin.Job) error {
	return refused(admin.Check(job, c.Now()))
}

// refused puts an *admin.InvalidError into the words of the command line: the
// flag instead of the field, and the way out. Other errors stay as they are.
func refused(err error) error {
	invalid := new(admin.InvalidError)
	if !errors.As(err, &invalid) {
		return err
	}
	bad := func(what string) *cmdline.HintError {
		return cmdline.Usage("%s %q: %w", what, invalid.Value, invalid.Err)
	}
	switch invalid.Field {
	case "Name":
		return bad("name").Try("1 to 200 bytes of printable text without / and not beginning with _ or ending like [3]")
	case "Schedule":
		if text := new(cronexpr.Error); errors.As(err, &text) { // it quotes the schedule itself
			return cmdline.Usage("%w", text).Try("swctl help schedule")
		}
		return bad("schedule").Try("swctl help schedule")
	case "TimeZone":
		return bad("--tz").Try("--tz Europe/Berlin, or leave it out for UTC")
	case "Handler":
		return bad("--handler").Try("1 to 200 bytes of printable text without / and not beginning with _")
	case "Args":
		return bad("--arg").Try("fewer or shorter arguments: all of a job is kept in one ZooKeeper node")
	case "Payload":
		return bad("--"+flagArgsJSON).Try(`--%s '{"key": 1}', or @FILE; all of a job is kept in one ZooKeeper node`, flagArgsJSON)
	case "ShardParameters":
		return bad("--"+flagShardParam).Try("--%s K= removes the parameter of a shard, --%s N says how many there are", flagShardParam, flagShards)
	case "Servers":
		return bad("--"+cmdline.FlagZK).Try("--%s host:port,host:port/chroot", cmdline.FlagZK)
	case "ServerType":
		return bad("--"+cmdline.FlagServerType).Try("--%s NAME, the Config.ServerType of the application", cmdline.FlagServerType)
	case "Auth": // its value is a secret
		return cmdline.Usage("--%s: %w", cmdline.FlagAuthFile, invalid.Err).Try("a file that holds user:password")
	}
	if flag, ok := fieldFlags[invalid.Field]; ok {
		return bad("--" + flag)
	}
	return err
}

// fieldFlags are the flags of those fields whose error says all there is to
// say.
var fieldFlags = map[string]string{
	"Misfire": flagMisfire, "MisfireGrace": flagMisfireGrace, "Interrupted": flagInterrupted,
	"MaxAttempts": flagMaxAttempts, "Overlap": flagOverlap, "Timeout": flagRunTimeout,
	"Shards": flagShards, "Until": flagUntil, "Missed": flagMissed, "By": flagBy, "Reason": flagReason,
	"Retries": flagRetries, "Backoff": flagBackoff, "AlarmAfter": flagAlarmAfter,
}
