package main

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// jsonShards is what jobs with shards, and shards, have beside the rest; any
// other job has none of it. It is part of the contract of json.go.
type jsonShards struct {
	Shard    *jsonShardOf  `json:"shard,omitempty"` // of one shard alone
	Shards   []jsonShard   `json:"shards,omitempty"`
	Complete *time.Time    `json:"complete_through,omitempty"`
	Resizing *jsonResizing `json:"resizing,omitempty"`
}

type jsonShardOf struct {
	Index     int    `json:"index"`
	Total     int    `json:"total"`
	Parameter string `json:"parameter"`
}

type jsonShard struct {
	Index     int        `json:"index"`
	Parameter string     `json:"parameter"`
	State     string     `json:"state"`
	Reason    string     `json:"reason,omitempty"`
	Owner     *jsonOwner `json:"owner"`
	NextRunAt *time.Time `json:"next_run_at"`
	LastRun   *jsonRun   `json:"last_run"`
	Watermark *time.Time `json:"accounted_through"`
	Overdue   *time.Time `json:"overdue_tick"`
	Alarm     *jsonAlarm `json:"alarm"`
}

// jsonResizing is a change of the shards that has yet to take effect.
type jsonResizing struct {
	From     int        `json:"from"` // 0: not divided
	To       int        `json:"to"`
	LastTick *time.Time `json:"last_tick"` // of the shards as they are; null: not settled yet
	WaitsFor []string   `json:"waits_for"`
}

func shardsToJSON(job admin.JobStatus) jsonShards {
	out := jsonShards{
		Complete: utc(job.Complete),
		Shard: optional(job.Shard, func(s admin.Shard) jsonShardOf {
			return jsonShardOf{Index: s.Index, Total: s.Total, Parameter: s.Parameter}
		}),
		Resizing: optional(job.Resizing, func(r admin.Resizing) jsonResizing {
			return jsonResizing{From: r.From, To: r.To, LastTick: utc(r.Until), WaitsFor: append([]string{}, r.WaitsFor...)}
		}),
	}
	for _, slot := range job.Slots {
		as := jobToJSON(slot)
		out.Shards = append(out.Shards, jsonShard{
			Index: slot.Shard.Index, Parameter: slot.Shard.Parameter, State: as.State, Reason: as.Reason,
			Owner: as.Owner, NextRunAt: as.NextRunAt, LastRun: as.LastRun, Watermark: as.Watermark, Overdue: as.Overdue, Alarm: as.Alarm,
		})
	}
	return out
}
