package zkrec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// The states of an instance.
const (
	InstanceActive   = "active"
	InstanceDraining = "draining" // takes no slots; those it still owns are busy
	InstanceDrained  = "drained"  // owns and takes nothing
	InstanceDisabled = "disabled" // owns and takes nothing, because of an order that survives restarts
	InstanceStandby  = "standby"  // owns and takes nothing, because it is not the leader
	// InstanceWrongClock hands over its slots and takes none, because its clock is wrong. Older
	// versions take it for a state of a newer version, and so for closed.
	InstanceWrongClock = "wrong_clock"
	// InstanceWarming owns and takes nothing, because it has just started. Older versions take it for
	// closed, too.
	InstanceWarming  = "warming"
	InstanceStopping = "stopping" // drains and leaves
)

// Instance is the ephemeral record of a running instance.
type Instance struct {
	Schema      int       `json:"schema"`
	Incarnation string    `json:"incarnation"`
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	StartedAt   time.Time `json:"started_at"`
	Version     string    `json:"version"`
	Program     string    `json:"program,omitempty"`     // the program's version; Version is the library's
	MaxSlots    int       `json:"max_slots,omitempty"`   // 0 means no limit
	MaxRunning  int       `json:"max_running,omitempty"` // runs in progress; 0 means no limit
	Weight      int       `json:"weight,omitempty"`      // relative share; 0 means 1
	// SessionTimeout is granted by the server. Leases last a part of it.
	SessionTimeout Duration `json:"session_timeout,omitempty"`
	// SessionLongest is the longest timeout that was asked for or granted, if that is longer: for so
	// long the session may live on.
	SessionLongest Duration `json:"session_longest,omitempty"`
	Owned          int      `json:"owned"`
	State          string   `json:"state"`
	// Withdrawn means that its own program has drained it.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Mode is empty in lease mode, else ModeLatch or ModeLatchAt. Instances of a group have the same.
	// Standby means that it is not the leader in latch mode.
	Mode    string `json:"mode,omitempty"`
	Standby bool   `json:"standby,omitempty"`
	// Guard is the token of the guard that started the process, if any. The guard
	// removes the record when the process has died.
	Guard string `json:"guard,omitempty"`
	// Handlers is the hash of the list of its handlers, whose node Tree.HandlerList is. Empty of an
	// instance that does not publish them: older versions, or too long a list.
	Handlers string `json:"handlers,omitempty"`
	// ClockOffset is how far its clock is ahead of ZooKeeper's (negative: behind), give or take
	// ClockBound, as it estimated when it last published it. It publishes changes of OffsetShown and
	// more; zero is not known, or less.
	ClockOffset Duration `json:"clock_offset,omitempty"`
	ClockBound  Duration `json:"clock_bound,omitempty"`
	// Labels are what jobs can require of it. Address is where it is reached, for people.
	Labels  map[string]string `json:"labels,omitempty"`
	Address string            `json:"address,omitempty"`
	// Zones is the fingerprint of its time zone database. Older versions do not say it.
	Zones string `json:"zones,omitempty"`
	// Specs is the newest schema of specs that it reads; older versions, which read schema 1, do not
	// say so. It also follows exclusions, unless it is 0.
	Specs int `json:"specs,omitempty"`
	// Resolves means that it has a resolver, for jobs whose policy for interrupted runs asks.
	Resolves bool `json:"resolves,omitempty"`
}

// Reads reports whether the instance reads specs of a schema.
func (i *Instance) Reads(schema int) bool { return schema <= max(i.Specs, Schema) }

// OffsetShown is the change of its clock's offset that an instance publishes.
const OffsetShown = 100 * time.Millisecond

// GuardEnv is the environment variable in which a guard passes its token to the
// process that it starts.
const GuardEnv = "SINGLEWORKER_GUARD"

// ModeLatch is the Mode of an instance in latch mode.
const ModeLatch = "latch"

// ModeLatchAt is the Mode of an instance in latch mode whose election is at a path outside the
// group's tree. It is another one than ModeLatch, because the two would have two leaders.
func ModeLatchAt(path string) string { return ModeLatch + " at " + path }

// Encode returns the node's data.
func (i Instance) Encode() []byte {
	i.Schema = Schema
	return mustJSON(i)
}

// ParseInstance reads an instance node. It accepts newer schemas: an instance of
// any version counts as live. Handlers that is no hash names no list, and is left out.
func ParseInstance(data []byte) (Instance, error) {
	var i Instance
	if err := json.Unmarshal(data, &i); err != nil {
		return Instance{}, fmt.Errorf("instance record %s: %w", excerpt(data), err)
	}
	if !listName.MatchString(i.Handlers) { // it becomes a path
		i.Handlers = ""
	}
	return i, nil
}

// Closed reports whether the instance itself declines further slots. Operators'
// orders are stored separately; the other instances read them directly rather than
// wait for the instance's state to follow.
func (i Instance) Closed() bool {
	switch i.State {
	case InstanceActive, InstanceDraining, InstanceDrained, InstanceDisabled, InstanceStandby:
		return i.Withdrawn || i.Standby
	default: // it is stopping, or in a state of a newer version
		return true
	}
}

// Order is an operator's order to drain or disable an instance: the data of its
// node below _disabled.
type Order struct {
	Schema int `json:"schema"`
	// Incarnation is the start of the instance that drains. Empty means every
	// start, until the order is removed.
	Incarnation string    `json:"incarnation,omitempty"`
	By          string    `json:"by,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	At          time.Time `json:"at,omitzero"` // by the operator's clock
}

// Binds reports whether the order applies to that incarnation of its instance.
func (o Order) Binds(incarnation string) bool {
	return o.Incarnation == "" || o.Incarnation == incarnation
}

// Encode returns the node's data.
func (o Order) Encode() []byte {
	o.Schema = Schema
	return mustJSON(o)
}

// ParseOrder reads an order. An unreadable order, created manually or by a newer
// version, binds every incarnation of its instance: the node's existence counts.
func ParseOrder(data []byte) Order {
	var o Order
	if len(bytes.TrimSpace(data)) == 0 || json.Unmarshal(data, &o) != nil {
		return Order{}
	}
	return o
}
