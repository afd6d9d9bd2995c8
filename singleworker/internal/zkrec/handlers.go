package zkrec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// MaxHandlersBytes is the longest list of handlers that an instance publishes. Which jobs an instance with
// a longer one can run is read from their registrations.
const MaxHandlersBytes = 256 << 10

// EncodeHandlers returns the data of the node that lists an instance's handlers, and the hash that names the
// node. ok is false if the list is too long to be published.
func EncodeHandlers(names []string) (hash string, data []byte, ok bool) {
	sorted := slices.Sorted(slices.Values(names))
	data = []byte(strings.Join(slices.Compact(sorted), "\n"))
	if len(data) > MaxHandlersBytes {
		return "", nil, false
	}
	return hashOf(data), data, true
}

// ParseHandlers reads a list of handlers whose node is named by hash. The list is sorted. Data of another hash
// is an error: nobody has published it.
func ParseHandlers(hash string, data []byte) ([]string, error) {
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
