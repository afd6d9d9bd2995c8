package job

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reserved is the first letter of the names that singleworker keeps for itself
// beside the jobs.
const Reserved = "_"

// CheckName reports why name cannot be the name of a job.
func CheckName(name string) error {
	if job, shard, ok := SplitShard(name); ok {
		return fmt.Errorf("is the name of shard %d of a job %q", shard, job)
	}
	return CheckNodeName(name)
}

// CheckNodeName reports why name cannot name a handler, an instance or a group: a name becomes one
// element of a ZooKeeper path.
func CheckNodeName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("is %d bytes long, at most %d are allowed", len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return errors.New("is not valid UTF-8")
	case name != strings.TrimSpace(name):
		return errors.New("begins or ends with a blank")
	case name == "." || name == "..":
		return errors.New("is a relative path element")
	case strings.HasPrefix(name, Reserved):
		return fmt.Errorf("begins with %q, which is reserved", Reserved)
	}
	for _, r := range name {
		if r == '/' || !unicode.IsPrint(r) || r >= 0xfff0 { // ZooKeeper refuses surrogates, so also what is beyond U+FFFF
			return fmt.Errorf("contains %q, want printable characters without '/'", r)
		}
	}
	return nil
}

// ShardName is the name of one shard of a job, such as "report[3]".
func ShardName(job string, shard int) string { return job + "[" + strconv.Itoa(shard) + "]" }

// SplitShard takes the name of a shard apart. Of any other name, ok is false and
// job is the name.
func SplitShard(name string) (job string, shard int, ok bool) {
	open := strings.LastIndexByte(name, '[')
	if open <= 0 || !strings.HasSuffix(name, "]") {
		return name, 0, false
	}
	digits := name[open+1 : len(name)-1]
	shard, err := strconv.Atoi(digits)
	if err != nil || shard < 0 || strconv.Itoa(shard) != digits { // neither "03" nor "-1"
		return name, 0, false
	}
	return name[:open], shard, true
}
