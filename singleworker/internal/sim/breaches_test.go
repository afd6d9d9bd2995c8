package sim

import (
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// heartbeats has an operation on the heartbeats of any job check no version.
func heartbeats(op zkdev.Op) func(zkdev.Op, string, int32) (string, int32) {
	return func(o zkdev.Op, path string, version int32) (string, int32) {
		if o == op && strings.Contains(path, "/alive/") {
			return path, -1
		}
		return path, version
	}
}

// breaches are the rules that can be broken in every instance of a group, by name.
var breaches = map[string]*breach{
	"takeover": {check: heartbeats(zkdev.OpDelete)},       // without the heartbeat's version
	"adoption": {check: blind(zkdev.OpSetData, "/alive")}, // without the owner record's version
	"lease":    {granted: 40 * time.Second},               // that outlives the session
	"claim":    {check: claim},                            // without a check of the owner
	"spec":     {check: unspecified},                      // a claim without the spec's version
	"layout":   {hasty: true},                             // that does not wait for runs to end
	"claims": {check: func(op zkdev.Op, path string, version int32) (string, int32) { // without any check
		path, version = claim(op, path, version)
		return blind(zkdev.OpSetData, "/tick")(op, path, version)
	}},
}
