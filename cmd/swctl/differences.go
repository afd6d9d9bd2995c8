package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
)

// differences lists what changed, as field, before, arrow and after.
func differences(before, after jsonSpec) [][4]string {
	var changes [][4]string
	compare := func(field, was, is string) {
		if was != is {
			changes = append(changes, [4]string{field, was, "->", is})
		}
	}
	compare("schedule", before.Schedule, after.Schedule)
	compare("time zone", before.TimeZone, after.TimeZone)
	compare("handler", before.Handler, after.Handler)
	compare("args-json", string(before.Payload), string(after.Payload))
	compare("misfire", before.Misfire, after.Misfire)
	compare("misfire grace", seconds(before.MisfireGrace), seconds(after.MisfireGrace))
	compare("interrupted", before.Interrupted, after.Interrupted)
	compare("max attempts", strconv.Itoa(before.MaxAttempts), strconv.Itoa(after.MaxAttempts))
	compare("overlap", before.Overlap, after.Overlap)
	compare("run timeout", seconds(before.Timeout), seconds(after.Timeout))
	compare("retries", strconv.Itoa(before.Retries), strconv.Itoa(after.Retries))
	compare("backoff", seconds(before.Backoff), seconds(after.Backoff))
	compare("alarm after", seconds(before.AlarmAfter), seconds(after.AlarmAfter))
	for _, key := range keysOf(before.Args, after.Args) {
		compare("arg "+key, before.Args[key], after.Args[key])
	}
	compare("shards", shardsText(before.ShardTotal), shardsText(after.ShardTotal))
	for _, k := range keysOf(before.ShardParams, after.ShardParams) {
		compare(fmt.Sprintf("shard %d", k), before.ShardParams[k], after.ShardParams[k])
	}
	return changes
}

// keysOf are the keys of either, sorted.
func keysOf[K cmp.Ordered](a, b map[K]string) []K {
	both := maps.Clone(a)
	if both == nil {
		both = map[K]string{}
	}
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}

// shardsText is empty for a job that is not divided.
func shardsText(shards int) string {
	if shards == 0 {
		return ""
	}
	return strconv.Itoa(shards)
}

// seconds is a duration of the JSON contract as people write it.
func seconds(n float64) string { return output.Exact(time.Duration(n * float64(time.Second))) }
