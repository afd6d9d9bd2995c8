package admin

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// group is the group's state beside the job's record.
type group struct {
	owner      string   // named by the owner record
	offer      string   // of the owner before
	registered []string // for the job
	live       []string // running instances
	states     map[string]string
	most       int // MaxSlots of each, of which it owns 2
}

func (g group) judge(spec []byte) JobStatus {
	live := make(map[string]Instance)
	for _, sid := range g.live {
		live[sid] = Instance{ID: sid, State: g.states[sid], Owned: 2, MaxSlots: g.most}
	}
	r := records{slot: "daily", spec: spec, registered: g.registered, owner: zkrec.Owner{SID: g.owner, Offer: g.offer}}
	return r.status(r.parse(), live, moment{now: time.Now(), certain: time.Now()})
}

func TestStateAndReason(t *testing.T) {
	t.Parallel()
	ab := []string{"a", "b"}
	for what, row := range map[string]struct {
		spec   string
		group  group
		state  State
		reason string
	}{
		"owned": {
			"@daily", group{owner: "a", registered: ab, live: ab}, StateOwned, "",
		},
		"owned, though its registration is gone": {
			"@daily", group{owner: "a", live: []string{"a"}}, StateOwned, "",
		},
		"the owner has died, one is left": {
			"@daily", group{owner: "a", registered: ab, live: []string{"b"}}, StateUnowned,
			"its owner a is gone; waiting for b to take over",
		},
		"the owner has died, two are left": {
			"@daily", group{owner: "z", registered: ab, live: ab}, StateUnowned,
			"its owner z is gone; waiting for a or b to take over",
		},
		"the owner has died, nobody is left": {
			"@daily", group{owner: "a", registered: []string{"a"}, live: []string{"c"}}, StateUnowned,
			"its owner a is gone; waiting for an instance with its handler to take over",
		},
		"one is closed": {
			"@daily", group{registered: ab, live: ab, states: map[string]string{"b": InstanceDrained}}, StateUnowned, "waiting for a to adopt it",
		},
		"all are closed": {
			"@daily", group{registered: ab, live: ab, states: map[string]string{"a": InstanceDisabled, "b": InstanceDraining}}, StateUnowned,
			`every instance with handler "daily" is closed: a is disabled, b is draining`,
		},
		"all are full": {
			"@daily", group{registered: ab, live: ab, most: 2}, StateUnowned,
			`every instance with handler "daily" is full: a owns 2 of at most 2 slots, b owns 2 of at most 2 slots; start another, or raise MaxSlots`,
		},
		"all are full, and one of them was offered the job": {
			"@daily", group{offer: "b", registered: ab, live: ab, most: 2}, StateUnowned,
			`every instance with handler "daily" is full: a owns 2 of at most 2 slots, b owns 2 of at most 2 slots; start another, or raise MaxSlots`,
		},
		"the owner has died, and of those that are left one is full, one is closed": {
			"@daily", group{owner: "z", registered: ab, live: ab, most: 1, states: map[string]string{"a": InstanceDrained}}, StateUnowned,
			`its owner z is gone; every instance with handler "daily" is full: b owns 2 of at most 1 slots, a is drained; start another, or raise MaxSlots`,
		},
		"there is room": {
			"@daily", group{registered: ab, live: ab, most: 3}, StateUnowned, "waiting for a or b to adopt it",
		},
		"there are many instances": {
			"@daily", group{registered: strings.Split("abcdefgh", ""), live: strings.Split("abcdefgh", "")}, StateUnowned,
			"waiting for a or b or c or d or e or 3 more to adopt it",
		},
		"nobody ever had the handler": {
			"@daily", group{live: ab}, StateUnowned, `no instance has registered handler "daily"`,
		},
		"nobody has the handler that it names": {
			`{"schema":1,"schedule":"@daily","handler":"stats"}`, group{live: ab}, StateUnowned,
			`no instance has registered handler "stats"`,
		},
		"all that had the handler are dead": {
			"@daily", group{registered: ab, live: []string{"c"}}, StateUnowned,
			`no live instance has handler "daily" (last seen on a, b)`,
		},
		"handed over": {
			"@daily", group{offer: "b", registered: ab, live: ab}, StateUnowned,
			"handed over to b, which has not taken it yet",
		},
		"new": {
			"@daily", group{registered: ab, live: []string{"b", "c"}}, StateUnowned, "waiting for b to adopt it",
		},
		"garbage": {
			"{", group{registered: ab, live: ab}, StateInvalid,
			`job spec "{": unexpected end of JSON input; submit it again with Replace, or cancel it`,
		},
		"garbage, with an owner": {
			"{", group{owner: "a", registered: ab, live: ab}, StateInvalid,
			`job spec "{": unexpected end of JSON input; submit it again with Replace, or cancel it`,
		},
		"empty": {
			"", group{}, StateInvalid,
			"job spec is empty, want a cron expression or a JSON object; submit it again with Replace, or cancel it",
		},
		"no schedule": {
			"@dialy", group{}, StateInvalid,
			`job.Schedule "@dialy": schedule "@dialy": column 1: unknown descriptor "@dialy", want @yearly, @monthly, @weekly, ` +
				"@daily, @hourly, @every, @at, @after, @manually or @always; submit it again with Replace, or cancel it",
		},
		"no zone": {
			`{"schedule":"@daily","time_zone":"Mars"}`, group{}, StateInvalid,
			`job.TimeZone "Mars": unknown time zone Mars, want an IANA name such as "Europe/Berlin", or an offset such as "GMT+8:00"; ` +
				"submit it again with Replace, or cancel it",
		},
	} {
		if got := row.group.judge([]byte(row.spec)); got.State != row.state || got.Reason.String() != row.reason {
			t.Errorf("%s: %s because %s\nwant %s because %s", what, got.State, got.Reason, row.state, row.reason)
		}
	}
}

func TestStatusSaysWhatTheRecordSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // midnight, 2000-01-01, UTC
		spec := []byte(`{"schema":1,"schedule":"0 0 3 * * ?","time_zone":"Asia/Shanghai","args":{"a":"1"}}`)
		got := group{registered: []string{"a"}, live: []string{"a"}}.judge(spec)
		if got.Name != "daily" || got.Job.Schedule != "0 0 3 * * ?" || got.Job.TimeZone != "Asia/Shanghai" ||
			got.Job.Handler != "daily" || got.Job.Args["a"] != "1" || got.Declared {
			t.Errorf("status %+v", got)
		}
		if want := time.Date(2000, 1, 1, 19, 0, 0, 0, time.UTC); !got.NextRun.Equal(want) { // 03:00 in Shanghai
			t.Errorf("next run at %v, want %v", got.NextRun, want)
		}
		for _, nobody := range []group{{}, {registered: []string{"a"}}, {registered: []string{"a"}, live: []string{"a"}, most: 2}} {
			if got := nobody.judge(spec); !got.NextRun.IsZero() {
				t.Errorf("nobody will run it: %s, next run %v", got.Reason, got.NextRun)
			}
		}
		wrong := group{owner: "a", live: []string{"a"}, states: map[string]string{"a": InstanceWrongClock}}.judge(spec)
		wrong.SetConditions(time.Now())
		if _, holds := wrong.Condition(reason.OwnerClock); !holds || wrong.NextRun.IsZero() {
			t.Errorf("the clock of its owner is wrong: %+v, next run %v", wrong.Conditions, wrong.NextRun)
		}
		if over := (group{}).judge([]byte("@at 1999-01-01T00:00:00Z")); !over.NextRun.IsZero() || over.State != StateUnowned {
			t.Errorf("a job that is over: %s, next run %v; want unowned, none", over.State, over.NextRun)
		}
	})
}

func TestDeclaredMeansWithoutAnOperatorsChange(t *testing.T) {
	t.Parallel()
	spec := zkrec.Spec{Job: job.Job{Schedule: "@daily"}}
	spec.Declared = spec.Fingerprint()
	if got := (group{}).judge(spec.Encode()); !got.Declared {
		t.Error("as declared: Declared = false, want true")
	}
	spec.Job.Schedule = "@hourly"
	if got := (group{}).judge(spec.Encode()); got.Declared {
		t.Error("changed by an operator: Declared = true, want false")
	}
}
