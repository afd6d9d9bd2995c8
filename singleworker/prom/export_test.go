package prom

import "strings"

// Page lists the metrics as Markdown: METRICS.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nMade of the tables in the code. The [guide](../GUIDE.md#metrics) has how to use them.\n\n")
	b.WriteString("Of an instance:\n\n" + instanceTable.Page() + "\n")
	b.WriteString("Of each job of which the instance owns a slot, or owned one within the last hour:\n\n" + jobTable.Page())
	return b.String()
}
