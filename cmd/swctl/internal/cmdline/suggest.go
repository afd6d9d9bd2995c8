package cmdline

import (
	"slices"
	"unicode/utf8"
)

// unknownCommand refuses a command that does not exist and names the one that
// was probably meant.
func unknownCommand(commands []*Command, name string) error {
	err := Usage("no command %q", name)
	if near := meant(commands, name); near != "" {
		return err.Try("swctl %s", near)
	}
	return err.Try("swctl help lists the commands")
}

// meant guesses a command from what other tools call it, or from a typo.
func meant(commands []*Command, name string) string {
	switch name {
	case "add", "create", "new", "put", "schedule":
		return "submit"
	case "alter", "change", "edit", "modify", "patch", "resize", "scale", "update":
		return "set"
	case "disable", "halt", "hold", "suspend":
		return "pause"
	case "stop":
		return "pause NAME, or swctl stop-run NAME to end its run in progress"
	case "enable", "unpause":
		return "resume"
	case "log", "logs", "runs":
		return "history"
	case "exec", "fire", "force", "run", "start":
		return "trigger"
	case "abort", "interrupt", "kill":
		return "stop-run"
	case "explain", "reason":
		return "why"
	case "delete", "del", "remove", "rm":
		return "cancel"
	case "describe", "get", "info", "status", "job", "shards":
		return "show"
	case "jobs", "ps":
		return "list"
	case "cordon", "drain", "evacuate":
		return "instances drain"
	case "uncordon":
		return "instances enable"
	case "members", "nodes", "servers", "workers":
		return "instances"
	}
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return Nearest(name, names)
}

// Nearest is the name that text was probably meant to be, or empty: one typo
// away, two if the text is long; of equally close names the first of the
// alphabet.
func Nearest(text string, names []string) string {
	best, found := 2, ""
	letters := utf8.RuneCountInString(text)
	if letters > 5 {
		best = 3
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(text, name); d < best && d < utf8.RuneCountInString(name) && d < letters {
			best, found = d, name
		}
	}
	return found
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbor to get from one text to another.
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
