package zkrec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MaxHandlersBytes is the longest list of handlers that an instance publishes. Which jobs an
// instance with a longer one can run is read from their registrations.
const MaxHandlersBytes = 256 << 10

// declared begins the lines of a list of handlers that name declared jobs, and printed those with a
// declared job, a tab, and the Fingerprint of its spec. No handler's name has a tab, so readers
// that do not know such lines take them for handlers of no job, or for a job of no name.
const (
	declared = "\t"
	printed  = "\t\t"
)

// listName is what hashOf returns.
var listName = regexp.MustCompile(`^[0-9a-f]{16}$`)

// EncodeHandlers returns the data of the node that lists an instance's handlers, and the hash that
// names the node. ok is false if the list is too long to be published. The jobs that the program
// declares at its start, with their fingerprints, are in it, too, if there is room for them, and
// without fingerprints if there is room for that; nil is left out.
func EncodeHandlers(names []string, jobs map[string]string) (hash string, data []byte, ok bool) {
	data = encodeList(names)
	if len(data) > MaxHandlersBytes {
		return "", nil, false
	}
	if jobs != nil {
		lines, prints := []string{declared}, []string(nil) // the first says that the jobs are all there
		for job, mark := range jobs {
			lines = append(lines, declared+job)
			if mark != "" {
				prints = append(prints, printed+job+"\t"+mark)
			}
		}
		for _, more := range [][]string{nil, prints} {
			if all := encodeList(slices.Concat(lines, more, names)); len(all) <= MaxHandlersBytes {
				data = all
			}
		}
	}
	return hashOf(data), data, true
}

func encodeList(lines []string) []byte {
	return []byte(strings.Join(slices.Compact(slices.Sorted(slices.Values(lines))), "\n"))
}

// ParseHandlers reads a list of handlers whose node is named by hash. The list is sorted. Data of
// another hash is an error: nobody has published it.
func ParseHandlers(hash string, data []byte) ([]string, error) {
	lines, err := parseList(hash, data)
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, declared) }), err
}

// ParseDeclared reads from the same data which jobs the program declares at its start, with their
// fingerprints, which are empty if they were not published. known is false if the jobs were not.
func ParseDeclared(hash string, data []byte) (jobs map[string]string, known bool) {
	lines, err := parseList(hash, data)
	if err != nil || !slices.Contains(lines, declared) {
		return nil, false
	}
	jobs = make(map[string]string)
	for _, line := range lines { // a job's two lines come in any order
		if job, found := strings.CutPrefix(line, printed); found {
			job, mark, _ := strings.Cut(job, "\t")
			jobs[job] = mark
			continue
		}
		job, found := strings.CutPrefix(line, declared)
		if _, has := jobs[job]; found && job != "" && !has {
			jobs[job] = ""
		}
	}
	return jobs, true
}

func parseList(hash string, data []byte) ([]string, error) {
	if len(data) > MaxHandlersBytes {
		return nil, fmt.Errorf("list of handlers of %d bytes, at most %d are read", len(data), MaxHandlersBytes)
	}
	if found := hashOf(data); found != hash {
		return nil, fmt.Errorf("list of handlers %s has the hash %s", excerpt(data), found)
	}
	if len(data) == 0 {
		return nil, nil
	}
	return strings.Split(string(data), "\n"), nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
