package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkArgs returns an error for unknown arguments, and for a missing required
// one. A known name that ends in "." matches all names that begin with it.
func checkArgs(args map[string]string, required string, optional ...string) error {
	known := append([]string{required}, optional...)
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !slices.ContainsFunc(known, func(k string) bool {
			return name == k || strings.HasSuffix(k, ".") && strings.HasPrefix(name, k)
		}) {
			return fmt.Errorf("unknown argument %q: want %s", name, strings.Join(known, ", "))
		}
	}
	if args[required] == "" {
		return fmt.Errorf("argument %q is missing", required)
	}
	return nil
}

// quote formats a short output of a program or server for an error message: on
// one line, with invalid UTF-8 replaced.
func quote(text []byte) string {
	return fmt.Sprintf("%q", strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD")))
}
