package main

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

// A mutant is one small change of the sources that breaks a rule.
type mutant struct {
	list   string   // its list, without ".txt"
	file   string   // from the module's root
	tests  []string // commands for go test: a package below singleworker, and flags
	why    string   // what the change does to the rule
	old    string   // occurs once in the file
	new    string
	reason string // why no test can tell the difference; "" for most
}

//go:embed lists
var lists embed.FS

// load reads all lists, in the order of their names.
func load() ([]mutant, error) {
	entries, err := lists.ReadDir("lists")
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, entry := range entries {
		text, err := lists.ReadFile(path.Join("lists", entry.Name()))
		if err != nil {
			return nil, err
		}
		list, err := parse(strings.TrimSuffix(entry.Name(), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// parse reads a list; the package comment describes its form.
func parse(list, text string) ([]mutant, error) {
	var all []mutant
	var file string
	var tests, old, replaced []string
	var m mutant
	end := func() error {
		defer func() { m, old, replaced = mutant{}, nil, nil }()
		m.list, m.file, m.tests = list, file, tests
		m.old, m.new = strings.Join(old, "\n"), strings.Join(replaced, "\n")
		switch {
		case m.why == "" && m.old == "" && m.new == "" && m.reason == "":
			return nil
		case m.why == "" || m.old == "" || m.old == m.new || file == "" || len(tests) == 0:
			return fmt.Errorf("list %s: %q in %q lacks something", list, m.why, file)
		}
		all = append(all, m)
		return nil
	}
	for i, line := range strings.Split(text+"\n", "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case "":
			if line != "" {
				rest = strings.TrimPrefix(rest, " ")
				old, replaced = append(old, rest), append(replaced, rest)
				continue
			}
			if err := end(); err != nil {
				return nil, err
			}
		case "#":
		case "file":
			file = path.Join("singleworker", rest) // which may begin with ../
		case "tests":
			tests = strings.Split(rest, ", ")
		case ">":
			m.why = rest
		case "-":
			old = append(old, rest)
		case "+":
			replaced = append(replaced, rest)
		case "=":
			m.reason = rest
		default:
			return nil, fmt.Errorf("list %s, line %d: unknown mark %q", list, i+1, mark)
		}
	}
	return all, nil
}

// apply returns the source with the mutant's change, and the line of it.
func (m mutant) apply(source string) (mutated string, line int, err error) {
	if n := strings.Count(source, m.old); n != 1 {
		return "", 0, fmt.Errorf("%s has %q %d times, want once", m.file, m.old, n)
	}
	before, after, _ := strings.Cut(source, m.old)
	return before + m.new + after, strings.Count(before, "\n") + 1, nil
}
