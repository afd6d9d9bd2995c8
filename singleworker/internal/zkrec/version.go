package zkrec

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// maxVersion is the longest version of a program, in bytes.
const maxVersion = 100

// version is a version of a program: numbers, a pre-release, build data.
var version = regexp.MustCompile(`^v?(\d{1,18}(?:\.\d{1,18})*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$`)

// CheckVersion refuses a version of a program that CompareVersions could not compare. Empty means
// that it is unknown.
func CheckVersion(v string) error {
	if v != "" && (len(v) > maxVersion || !version.MatchString(v)) {
		return errors.New(`want numbers such as "1.4.0", "v2" or "20261122.3", perhaps with "-rc.1" or "+build": a version is compared with others`)
	}
	return nil
}

// CompareVersions returns whether a comes before b (negative), or after it, in the order of
// semantic versioning, with any number of numbers: a missing one is 0, a pre-release comes before
// its release, and build data do not count. ok is false if one of them is no version, or empty.
func CompareVersions(a, b string) (order int, ok bool) {
	x, y := version.FindStringSubmatch(a), version.FindStringSubmatch(b)
	if x == nil || y == nil {
		return 0, false
	}
	if order := compareParts(x[1], y[1], "0"); order != 0 {
		return order, true
	}
	switch {
	case x[2] == y[2]:
		return 0, true
	case x[2] == "":
		return 1, true
	case y[2] == "":
		return -1, true
	}
	return compareParts(x[2], y[2], ""), true
}

// compareParts compares the parts between dots. Where one has no more parts, they are as given.
func compareParts(a, b, missing string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		p, q := missing, missing
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if order := comparePart(p, q); order != 0 {
			return order
		}
	}
	return 0
}

// comparePart compares numbers by value and before any text, and text by its bytes. No part comes
// before any other.
func comparePart(p, q string) int {
	m, numeric := number(p)
	n, too := number(q)
	switch {
	case p == "" || q == "":
		return len(p) - len(q)
	case numeric && too:
		return cmp.Compare(m, n)
	case numeric:
		return -1
	case too:
		return 1
	}
	return strings.Compare(p, q)
}

func number(part string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(part, 10, 64)
	return n, err == nil
}
