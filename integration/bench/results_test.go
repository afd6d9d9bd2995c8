package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// results is what was measured, in the order of the first measurement.
type results struct {
	rows []*row
}

// row is what was measured of one thing, once or more often.
type row struct {
	name   string
	units  []string
	values map[string][]float64 // by unit
	notes  []string             // what the figures do not say
}

// line is one measurement of a row.
type line struct {
	row  *row
	text string
	note string
}

// line begins a measurement.
func (r *results) line(name string, s size) *line {
	name += "/" + s.String()
	k := slices.IndexFunc(r.rows, func(row *row) bool { return row.name == name })
	if k < 0 {
		k = len(r.rows)
		r.rows = append(r.rows, &row{name: name, values: make(map[string][]float64)})
	}
	return &line{row: r.rows[k]}
}

// add adds a figure.
func (l *line) add(value float64, unit string) *line {
	if l.row.values[unit] == nil {
		l.row.units = append(l.row.units, unit)
	}
	l.row.values[unit] = append(l.row.values[unit], value)
	l.text += fmt.Sprintf(" %s %s", number(value), unit)
	return l
}

// late adds how late runs began, given the least first.
func (l *line) late(all []time.Duration) *line {
	l.add(float64(len(all)), "runs")
	if n := len(all); n > 0 {
		const half, most = 50, 99
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		l.add(ms(all[(n-1)*half/100]), "p50-ms").add(ms(all[(n-1)*most/100]), "p99-ms").add(ms(all[n-1]), "max-ms")
	}
	return l
}

// remark says what the figures do not.
func (l *line) remark(format string, args ...any) {
	l.note = fmt.Sprintf(format, args...)
	l.row.notes = append(l.row.notes, l.note)
}

// print prints the line for benchstat, or, with a remark, so that benchstat does not count it.
func (l *line) print() {
	if l.note != "" {
		fmt.Printf("# %s: %s:%s\n", l.row.name, l.note, l.text)
		return
	}
	fmt.Printf("Benchmark%s 1%s\n", l.row.name, l.text)
}

// table prints the medians for people.
func (r *results) table() {
	width := 0
	for _, row := range r.rows {
		width = max(width, len(row.name))
	}
	fmt.Println()
	for _, row := range r.rows {
		var cells []string
		for _, unit := range row.units {
			values := slices.Sorted(slices.Values(row.values[unit]))
			cells = append(cells, fmt.Sprintf("%8s %s", number(values[len(values)/2]), unit))
		}
		fmt.Printf("%-*s %s", width, row.name, strings.Join(cells, " "))
		if len(row.notes) > 0 {
			fmt.Printf("  (%s)", strings.Join(slices.Compact(row.notes), "; "))
		}
		fmt.Println()
	}
}

// number has about three digits.
func number(f float64) string {
	const tens, hundreds = 10, 100
	switch {
	case f == float64(int64(f)) || f >= hundreds || f <= -hundreds:
		return fmt.Sprintf("%.0f", f)
	case f >= tens || f <= -tens:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
