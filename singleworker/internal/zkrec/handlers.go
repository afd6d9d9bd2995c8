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

// declared begins the lines of a list of handlers that name declared jobs. No handler's name has a
// tab, so readers that do not know such lines take them for handlers of no job.
const declared = "\t"

// listName is what hashOf returns.
var listName = regexp.MustCompile(`^[0-9a-f]{16}$`)

// EncodeHandlers returns the data of the node that lists an instance's handlers, and the hash that
// names the node. ok is false if the list is too long to be published. The jobs that the program
// declares at its start are in it, too, if there is room for them; nil is left out.
func EncodeHandlers(names, jobs []string) (hash string, data []byte, ok bool) {
	data = encodeList(names)
	if len(data) > MaxHandlersBytes {
		return "", nil, false
	}
	if jobs != nil {
		lines := []string{declared} // says that the jobs are all there
		for _, job := range jobs {
			lines = append(lines, declared+job)
		}
		if all := encodeList(append(lines, names...)); len(all) <= MaxHandlersBytes {
			data = all
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

// ParseDeclared reads from the same data which jobs the program declares at its start; known is
// false if that was not published.
func ParseDeclared(hash string, data []byte) (jobs []string, known bool) {
	lines, err := parseList(hash, data)
	if err != nil || !slices.Contains(lines, declared) {
		return nil, false
	}
	for _, line := range lines {
		if job, found := strings.CutPrefix(line, declared); found && job != "" {
			jobs = append(jobs, job)
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
