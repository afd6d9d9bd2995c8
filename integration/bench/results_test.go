package bench

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// results are the measurements, in the order of the first one.
type results struct {
	rows []*row
}

// row holds measurements of one thing, once or more often.
type row struct {
	name   string
	units  []string
	values map[string][]float64 // by unit
	notes  []string             // what the figures do not say
}

// line is one measurement of a row.
type line struct {
	name    string
	figures []figure
	note    string
}

type figure struct {
	value float64
	unit  string
}

func newLine(name string, s size) *line { return &line{name: s.of(name)} }

// add adds a figure.
func (l *line) add(value float64, unit string) *line {
	l.figures = append(l.figures, figure{value, unit})
	return l
}

// late adds how late runs began, given the least first.
func (l *line) late(all []time.Duration) *line {
	l.add(float64(len(all)), "runs")
	if n := len(all); n > 0 {
		l.add(ms(percentile(all, 50)), "p50-ms").add(ms(percentile(all, 99)), "p99-ms").add(ms(all[n-1]), "max-ms")
	}
	return l
}

// cpu adds the processor time of each run.
func (l *line) cpu(instances, server time.Duration, runs float64) *line {
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / runs }
	return l.add(each(instances), "us-instances/run").add(each(server), "us-server/run").add(each(instances+server), "us/run")
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// percentile returns one of values, of which the least comes first: so many of 100 are not greater.
func percentile[T any](all []T, of int) T { return all[(len(all)-1)*of/100] }

// remarkf adds a remark to the figures.
func (l *line) remarkf(format string, args ...any) { l.note = fmt.Sprintf(format, args...) }

// print prints a line for benchstat, or, with a remark, so that benchstat leaves it out; and keeps
// it for the table.
func (r *results) print(l *line) {
	r.keep(l)
	var text strings.Builder
	for _, f := range l.figures {
		fmt.Fprintf(&text, " %s %s", number(f.value), f.unit)
	}
	if l.note == "" {
		fmt.Printf("%s%s 1%s\n", benchmark, l.name, &text)
		return
	}
	fmt.Printf("# %s: %s:%s\n", l.name, l.note, &text)
}

// keep keeps a line for the table.
func (r *results) keep(l *line) {
	to := r.row(l.name)
	if to == nil {
		to = &row{name: l.name, values: make(map[string][]float64)}
		r.rows = append(r.rows, to)
	}
	for _, f := range l.figures {
		if to.values[f.unit] == nil {
			to.units = append(to.units, f.unit)
		}
		to.values[f.unit] = append(to.values[f.unit], f.value)
	}
	if l.note != "" {
		to.notes = append(to.notes, l.note)
	}
}

// row returns the row of that name, or nil.
func (r *results) row(name string) *row {
	if k := slices.IndexFunc(r.rows, func(row *row) bool { return row.name == name }); k >= 0 {
		return r.rows[k]
	}
	return nil
}

// benchmark is how a line for benchstat begins.
const benchmark = "Benchmark"

// read keeps the lines for benchstat that are in a text.
func (r *results) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), benchmark)
		fields := strings.Fields(text)
		const name, unit = 2, 2 // with the number of times, and with the value
		if !ok || len(fields) < name {
			continue
		}
		l := &line{name: fields[0]}
		for pair := range slices.Chunk(fields[name:], unit) {
			value, err := strconv.ParseFloat(pair[0], 64)
			if err != nil || len(pair) < unit {
				return fmt.Errorf("%q is not a line for benchstat: %w", lines.Text(), err)
			}
			l.add(value, pair[1])
		}
		r.keep(l)
	}
	return lines.Err()
}

// median returns the measurements' median, and false if there are none.
func (r *results) median(name, unit string) (float64, bool) {
	row := r.row(name)
	if row == nil || row.values[unit] == nil {
		return 0, false
	}
	return row.median(unit), true
}

func (r *row) median(unit string) float64 {
	values := slices.Sorted(slices.Values(r.values[unit]))
	return values[len(values)/2]
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
			cells = append(cells, fmt.Sprintf("%8s %s", number(row.median(unit)), unit))
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
