package zkrec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// MaxExclusions is how many exclusions a group may have. Every instance reads them all.
const MaxExclusions = 1000

// Exclusion is an operator's order that keeps an instance, or every instance of a host, from
// running a job, or every instance of a host from running any. It is the data of a node below
// _excluded, which is named by the order's subject. So that never changes in a node, and instances
// read each node once, however often others come and go.
type Exclusion struct {
	Schema int       `json:"schema"`
	SID    string    `json:"instance,omitempty"` // or Host
	Host   string    `json:"host,omitempty"`
	Job    string    `json:"job,omitempty"` // empty: every job of the Host
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"` // by the operator's clock
}

// Name is the name of the node.
func (x Exclusion) Name() string {
	sum := sha256.Sum256(mustJSON([]string{x.SID, x.Host, x.Job}))
	return hex.EncodeToString(sum[:16])
}

// Encode returns the node's data.
func (x Exclusion) Encode() []byte {
	x.Schema = Schema
	return mustJSON(x)
}

// ParseExclusion reads the node of that name. An order that belongs under another name binds
// nobody: nobody can tell its subject.
func ParseExclusion(name string, data []byte) (x Exclusion, err error) {
	if err := json.Unmarshal(data, &x); err != nil {
		return Exclusion{}, fmt.Errorf("exclusion %s: %w", excerpt(data), err)
	}
	switch {
	case x.Schema > Schema || x.Schema < 1:
		return Exclusion{}, fmt.Errorf("exclusion: %w", &SchemaError{Found: x.Schema, Known: Schema})
	case (x.SID == "") == (x.Host == "") || x.SID != "" && x.Job == "" || x.Name() != name:
		return Exclusion{}, errors.New("exclusion: its name is another order's; delete it")
	}
	return x, nil
}

// Exclusions has a group's exclusions, by job. Those under "" are for every job.
type Exclusions map[string][]Exclusion

// Of returns the order that keeps an instance from running a job, or, with job "", any job; or nil.
func (e Exclusions) Of(job, sid, host string) *Exclusion {
	for i, x := range e[job] {
		if x.SID == sid && sid != "" || x.Host == host && host != "" {
			return &e[job][i]
		}
	}
	return nil
}

// Why an instance must not run a job, besides an *ExcludedError.
var (
	ErrLabels    = errors.New("it does not have the labels that the job requires")
	ErrUnlisted  = errors.New("it is not one of the job's instances")
	ErrOldReader = errors.New("its version is too old to know when or where the job may run")
)

// ExcludedError says by which order.
type ExcludedError struct{ Exclusion Exclusion }

func (e *ExcludedError) Error() string { return "an operator has disabled the job there" }

// MayRun says why an instance that has the handler of a job must not run it, or nil. It is the one
// answer to that question: for the instances, and for people. Orders for a host as a whole close
// its instances, and are not looked at here.
func MayRun(j *job.Job, sid string, i *Instance, excluded Exclusions) error {
	if !i.Reads(SchemaOf(j)) {
		return ErrOldReader
	}
	if j.IsPlaced() {
		if len(j.Instances) > 0 && !slices.Contains(j.Instances, sid) {
			return ErrUnlisted
		}
		for key, value := range j.Require {
			if has, found := i.Labels[key]; !found || has != value {
				return ErrLabels
			}
		}
	}
	if len(excluded) == 0 {
		return nil
	}
	if x := excluded.Of(j.Name, sid, i.Host); x != nil {
		return &ExcludedError{*x}
	}
	return nil
}
