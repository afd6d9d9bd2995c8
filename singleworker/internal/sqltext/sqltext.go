// Package sqltext knows how databases want their statements written.
package sqltext

import (
	"strconv"
	"strings"
)

// Numbered replaces each ? of a statement by $1, $2 and so on, as PostgreSQL has its parameters.
func Numbered(query string) string {
	var text strings.Builder
	n := 0
	for _, c := range query {
		if c != '?' {
			text.WriteRune(c)
			continue
		}
		n++
		text.WriteString("$" + strconv.Itoa(n))
	}
	return text.String()
}
