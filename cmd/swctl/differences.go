package main

import (
	"maps"
	"slices"
	"strconv"
	"time"
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
	keys := map[string]bool{}
	for _, args := range []map[string]string{before.Args, after.Args} {
		for key := range args {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		compare("arg "+key, before.Args[key], after.Args[key])
	}
	return changes
}

// seconds is a duration of the JSON contract as people write it.
func seconds(n float64) string { return exact(time.Duration(n * float64(time.Second))) }
