package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkArgs refuses arguments that a handler would ignore, and missing ones.
// A known name that ends in "." stands for all that begin with it.
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

// quote makes a short text fit for an error: what somebody else's program or
// server wrote, on one line, without bytes that are no text.
func quote(text []byte) string {
	return fmt.Sprintf("%q", strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD")))
}
