package zkrec

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// MaxVersions is how many former versions of a job are kept, fewer if they take more than
// maxVersionBytes.
const (
	MaxVersions     = 10
	maxVersionBytes = 4 * MaxRecordBytes
)

// Versions are the last versions of a job, the present one last: the data of a node below the job
// that its first change makes.
type Versions struct {
	Schema int       `json:"schema"`
	List   []Version `json:"versions"`
}

// Version is one of them.
type Version struct {
	Number int   `json:"number"`         // from 1
	At     int64 `json:"at,omitempty"`   // since when, by ZooKeeper's clock; of the last, 0 is when the node was last written
	Deed   Kept  `json:"deed,omitempty"` // who made it; of the first, nobody knows
	Spec   Kept  `json:"spec,omitempty"` // the job; of the last, the job's own node has it
}

// Versions is the node of the versions of a job.
func (t Tree) Versions(job string) string { return t.Job(job) + "/" + versionsNode }

// Encode returns the node's data.
func (v Versions) Encode() []byte {
	v.Schema = Schema
	return mustJSON(v)
}

// ParseVersions reads the node, which was last written at mtime: no time is left out. One that does
// not exist is empty.
func ParseVersions(data []byte, mtime time.Time) (v Versions, err error) {
	if len(data) == 0 {
		return Versions{}, nil
	}
	if err = json.Unmarshal(data, &v); err == nil && v.Schema > Schema {
		err = &SchemaError{Found: v.Schema, Known: Schema}
	}
	for _, of := range v.List {
		if err == nil {
			err = CheckTime(of.At)
		}
	}
	if err != nil {
		return Versions{}, fmt.Errorf("versions %s: %w", excerpt(data), err)
	}
	if n := len(v.List); n > 0 && v.List[n-1].At == 0 {
		v.List[n-1].At = Milli(mtime)
	}
	return v, nil
}

// Add returns v with the next version, which d makes of a job with this record. The job was created
// at a time.
func (v Versions) Add(was []byte, created time.Time, d Deed) (next int32, with Versions) {
	spec, err := ParseSpec("", was)
	record := Kept(was)
	if err == nil {
		record = Spec{Job: spec.Job}.Encode()
	}
	list := slices.Clone(v.List)
	present := spec.Number()
	if n := len(list); n > 0 {
		present = max(present, list[n-1].Number)
	}
	if n := len(list); n == 0 || list[n-1].Number != present {
		first := Version{Number: present}
		if present == 1 {
			first.At = Milli(created)
		}
		list = append(list, first)
	}
	list[len(list)-1].Spec = record
	list = append(list, Version{Number: present + 1, Deed: d.Encode()})
	list = list[max(0, len(list)-MaxVersions-1):]
	bytes := 0
	for _, of := range list {
		bytes += len(of.Spec) + len(of.Deed)
	}
	for bytes > maxVersionBytes {
		bytes -= len(list[0].Spec) + len(list[0].Deed)
		list = list[1:]
	}
	return int32(present + 1), Versions{List: list}
}

// Number counts the changes of the job, from 1.
func (s Spec) Number() int { return int(max(1, s.Version)) }
