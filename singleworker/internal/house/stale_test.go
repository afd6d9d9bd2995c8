package house

import (
	"slices"
	"strings"
	"testing"
)

// Records of a server that has lost its quorum are for people, and for scripts that see the mark.
// An instance must not take part by them, and whatever keeps running would go on with them. So the
// fields that ask for such a server are set in one place each.
func TestWhoAsksForReadOnlyServers(t *testing.T) {
	t.Parallel()
	for field, in := range map[string]string{
		"AllowStale": "cmd/swctl/internal/commands/call.go",
		"ReadOnly":   "singleworker/admin/client.go",
	} {
		var found []string
		for _, file := range moduleFiles(t) {
			if text := readFile(t, file.name); !file.test && (strings.Contains(text, "."+field+" = ") || strings.Contains(text, " "+field+": ") || strings.Contains(text, "{"+field+": ")) {
				found = append(found, file.name)
			}
		}
		if !slices.Equal(found, []string{in}) {
			t.Errorf("%s is set in %v, want %s alone", field, found, in)
		}
	}
}
