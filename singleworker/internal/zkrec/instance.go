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
	InstanceDraining = "draining" // takes no further slots; what it still owns is busy
	InstanceDrained  = "drained"  // draining is done
	InstanceDisabled = "disabled" // likewise, by an order that outlives it
	InstanceStandby  = "standby"  // likewise, because another instance leads, or none does
	InstanceStopping = "stopping" // it drains and leaves
)

// Instance is the ephemeral record of a running instance.
type Instance struct {
	Schema      int       `json:"schema"`
	Incarnation string    `json:"incarnation"`
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	StartedAt   time.Time `json:"started_at"`
	Version     string    `json:"version"`
	MaxSlots    int       `json:"max_slots,omitempty"` // 0: no limit
	Weight      int       `json:"weight,omitempty"`    // of its share; 0: 1
	// SessionTimeout is what the server has granted: the lease of what it owns is a part of that.
	SessionTimeout Duration `json:"session_timeout,omitempty"`
	Owned          int      `json:"owned"`
	State          string   `json:"state"`
	// Withdrawn: its own program has told it to drain.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Mode is empty in lease mode. Standby: in latch mode, it does not lead.
	Mode    string `json:"mode,omitempty"`
	Standby bool   `json:"standby,omitempty"`
	// Guard is the token of the guard that started the process, if one did: it
	// removes the record when the process has died.
	Guard string `json:"guard,omitempty"`
}

// GuardEnv is the environment variable in which a guard passes its token to the
// process that it starts.
const GuardEnv = "SINGLEWORKER_GUARD"

// ModeLatch is the Mode of an instance in latch mode.
const ModeLatch = "latch"

// Encode returns the node's data.
func (i Instance) Encode() []byte {
	i.Schema = Schema
	return mustJSON(i)
}

// ParseInstance reads an instance node. Fields of a newer schema are ignored:
// whether an instance lives must be known of any version.
func ParseInstance(data []byte) (Instance, error) {
	var i Instance
	if err := json.Unmarshal(data, &i); err != nil {
		return Instance{}, fmt.Errorf("instance record %s: %w", excerpt(data), err)
	}
	return i, nil
}

// Closed reports whether the instance takes no further slots of its own
// accord. Whether an operator keeps it from them is said by the orders, which
// the others read themselves: its state follows them, and is not waited for.
func (i Instance) Closed() bool {
	switch i.State {
	case InstanceActive, InstanceDraining, InstanceDrained, InstanceDisabled, InstanceStandby:
		return i.Withdrawn || i.Standby
	default: // it stops; or is of a newer version, and who knows what it does
		return true
	}
}

// Order is an operator's order that an instance own nothing: the data of its
// node below _disabled.
type Order struct {
	Schema int `json:"schema"`
	// Incarnation is the start of the instance that is to drain. Empty: all of
	// them, until the order is taken back.
	Incarnation string    `json:"incarnation,omitempty"`
	By          string    `json:"by,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	At          time.Time `json:"at,omitzero"` // on the clock of who gave it
}

// Binds reports whether the order is for that start of its instance.
func (o Order) Binds(incarnation string) bool {
	return o.Incarnation == "" || o.Incarnation == incarnation
}

// Encode returns the node's data.
func (o Order) Encode() []byte {
	o.Schema = Schema
	return mustJSON(o)
}

// ParseOrder reads an order. That the node is there is what counts: with
// nothing in it that can be read, a hand has made it, or a newer version, and it
// binds every start of its instance.
func ParseOrder(data []byte) Order {
	var o Order
	if len(bytes.TrimSpace(data)) == 0 || json.Unmarshal(data, &o) != nil {
		return Order{}
	}
	return o
}
