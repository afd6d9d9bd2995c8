package zkrec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// MaxDeparted is how many instances that are gone are left by one that joins, and DepartedFor is
// for how long.
const (
	MaxDeparted = 200
	DepartedFor = 24 * time.Hour
)

// Departed is an instance that is gone: the data of a node that is created when that is noticed.
type Departed struct {
	Schema      int       `json:"schema"`
	SID         string    `json:"sid"`
	Incarnation string    `json:"incarnation"`
	Host        string    `json:"host,omitempty"`
	PID         int       `json:"pid,omitempty"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	Version     string    `json:"version,omitempty"` // the program's, or else the library's
	Session     Duration  `json:"session,omitempty"` // the timeout of its session
	// Last is the last of its signs of life that was read, in Unix milliseconds on ZooKeeper's clock;
	// 0 if none was.
	Last int64 `json:"last,omitempty"`
	// Unread is for how long nobody had read its signs of life when it went.
	Unread  Duration `json:"unread,omitempty"`
	Stopped bool     `json:"stopped,omitempty"` // it was stopped, and wrote this itself
	By      string   `json:"by,omitempty"`      // the instance that has noticed it otherwise
}

// DepartedOf remembers an instance.
func DepartedOf(sid string, i Instance) Departed {
	return Departed{SID: sid, Incarnation: i.Incarnation, Host: i.Host, PID: i.PID, StartedAt: i.StartedAt, Version: cmp.Or(i.Program, i.Version), Session: i.SessionTimeout}
}

// Encode returns the node's data.
func (d Departed) Encode() []byte {
	d.Schema = Schema
	return mustJSON(d)
}

// ParseDeparted reads the node of an instance that is gone.
func ParseDeparted(data []byte) (Departed, error) {
	var d Departed
	if err := parsed("record of an instance that is gone", data, json.Unmarshal(data, &d), &d.Schema); err != nil {
		return Departed{}, err
	}
	if err := CheckTime(d.Last); err != nil {
		return Departed{}, fmt.Errorf("record of an instance that is gone: %w", err)
	}
	return d, nil
}
