package zkrec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// MaxContents is how many contents of a calendar are kept, the present one among them.
const MaxContents = 8

// maxCalendarBytes is the longest record of a calendar that is read.
const maxCalendarBytes = (MaxContents + 2) * job.MaxCalendarBytes

// Calendar is a calendar of a group, the data of a node below _calendars. Decisions by
// it check the node's version. So the node stays when the calendar is deleted: versions of a node
// that is made again start at 0.
type Calendar struct {
	Schema int `json:"schema"`
	// Contents are the last ones, the oldest first: each holds for the ticks after its Since, up to
	// the next one's. The oldest holds for those before it, too.
	Contents []Content `json:"contents"`
	// Deleted means that no job may name it. Ticks of a time when one did are still judged by it.
	Deleted bool `json:"deleted,omitempty"`
	// Set names the files that have the calendar, as of a job.
	Set string `json:"set,omitempty"`

	unknown Unknown
}

// Content is a calendar from a time on.
type Content struct {
	// Since is in Unix milliseconds by ZooKeeper's clock. 0 means when the node was last written.
	Since int64        `json:"since,omitempty"`
	Is    job.Calendar `json:"is"`
}

// Calendars is the parent of the group's calendars.
func (t Tree) Calendars() string { return t.root + "/" + calendarsNode }

// Calendar is the node of one.
func (t Tree) Calendar(name string) string { return t.Calendars() + "/" + name }

// CalendarAt is the name of the calendar whose node a path is.
func (t Tree) CalendarAt(path string) (name string, ok bool) {
	return strings.CutPrefix(path, t.Calendars()+"/")
}

// Encode returns the node's data.
func (c Calendar) Encode() []byte {
	c.Schema = Schema
	return c.unknown.Encode(c)
}

// parseCalendar reads a node that was last written at mtime: no time is left out. It refuses
// unreadable records, newer schemas, and contents that are not valid.
func parseCalendar(data []byte, mtime time.Time) (c Calendar, times job.CalendarTimes, err error) {
	if len(data) > maxCalendarBytes {
		return Calendar{}, times, fmt.Errorf("calendar has %d bytes, at most %d are read", len(data), maxCalendarBytes)
	}
	if err := parsed("calendar", data, c.unknown.Decode(data, &c), &c.Schema); err != nil {
		return Calendar{}, times, err
	}
	if len(c.Contents) == 0 {
		return Calendar{}, times, fmt.Errorf("calendar %s has no content", excerpt(data))
	}
	for i := range c.Contents {
		of := &c.Contents[i]
		if of.Since == 0 {
			of.Since = mtime.UnixMilli()
		}
		if err := CheckTime(of.Since); err != nil {
			return Calendar{}, times, fmt.Errorf("calendar: content %d: %w", i+1, err)
		}
	}
	for _, of := range c.Contents {
		if times, err = times.Add(time.UnixMilli(of.Since), of.Is); err != nil {
			return Calendar{}, job.CalendarTimes{}, fmt.Errorf("calendar since %s: %w", time.UnixMilli(of.Since).UTC().Format(time.RFC3339), err)
		}
	}
	return c, times, nil
}

// Present is the content that holds now.
func (c Calendar) Present() job.Calendar { return c.Contents[len(c.Contents)-1].Is }

// With returns c with a content that holds from when the node is written on, by ZooKeeper's clock.
func (c Calendar) With(is job.Calendar) Calendar {
	c.Contents = append(slices.Clone(c.Contents), Content{Is: is})
	c.Contents, c.Deleted = c.Contents[max(0, len(c.Contents)-MaxContents):], false
	return c
}

// CalendarNames are the names of the calendars by which the ticks of the spec's schedule, and of
// the former ones, are judged.
func (s Spec) CalendarNames() []string {
	if len(s.Job.Calendars) == 0 && s.Former == nil {
		return nil
	}
	names := s.Job.CalendarNames()
	for f := s.Former; f != nil; f = f.Former {
		names = append(names, job.Job{Calendars: f.Calendars}.CalendarNames()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ReadCalendar is a calendar as it was read.
type ReadCalendar struct {
	Calendar

	Times   job.CalendarTimes
	Version int32
	Written int64 // on ZooKeeper's clock, in Unix milliseconds
	Err     error // why it cannot be used; then there are no Times
}

// ReadCalendars are calendars of a group by name, as they were read. A job may name others.
type ReadCalendars map[string]ReadCalendar

// NewCalendar takes in the data of a calendar's node, which was last written at mtime.
func NewCalendar(data []byte, version int32, mtime time.Time) (read ReadCalendar) {
	read.Version, read.Written = version, Milli(mtime)
	read.Calendar, read.Times, read.Err = parseCalendar(data, mtime)
	return read
}

// Why a job that names a calendar is invalid.
var (
	errNoCalendar      = errors.New("is no calendar of the group: swctl calendars set makes it")
	errDeletedCalendar = errors.New("is a calendar that was deleted: swctl calendars set makes it again")
)

// Into returns s with the calendars that it names, without which its job has no schedule. A deleted
// one serves former schedules only.
func (c ReadCalendars) Into(s Spec) Spec {
	names := s.CalendarNames()
	if len(names) == 0 {
		return s
	}
	known, present := make(map[string]job.CalendarTimes, len(names)), s.Job.CalendarNames()
	for _, name := range names {
		switch read, found := c[name]; {
		case !found:
			known[name] = job.NoCalendar(errNoCalendar)
		case read.Err != nil:
			known[name] = job.NoCalendar(fmt.Errorf("cannot be read: %w", read.Err))
		case read.Deleted && slices.Contains(present, name):
			known[name] = job.NoCalendar(errDeletedCalendar)
		default:
			known[name] = read.Times
		}
	}
	s.Job = s.Job.WithCalendars(known)
	return s
}

// Versions are the versions of the calendars that a spec names, if they are there.
func (c ReadCalendars) Versions(tree Tree, s Spec) NodeVersions {
	var all NodeVersions
	for _, name := range s.CalendarNames() {
		if read, found := c[name]; found {
			all = all.With(tree.Calendar(name), read.Version, 0, read.Written)
		}
	}
	return all
}
