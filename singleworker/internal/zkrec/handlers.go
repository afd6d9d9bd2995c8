package zkrec

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// MaxHandlersBytes is the longest node with a list of handlers that an instance publishes. A list
// that is longer is compressed, so tens of thousands of handlers fit. Which jobs an instance can
// run whose list is too long even so is read from their registrations, at a cost that grows with
// the square of the group.
const MaxHandlersBytes = 256 << 10

// maxHandlersText is the longest list that is compressed, or read from a compressed node.
const maxHandlersText = 32 * MaxHandlersBytes

// zipped begins a compressed node, as RFC 1952 has it. No handler's name does.
const zipped = "\x1f\x8b"

// declared begins the lines of a list of handlers that name declared jobs, and printed those with a
// declared job, a tab, and the Fingerprint of its spec. No handler's name has a tab, so readers
// that do not know such lines take them for handlers of no job, or for a job of no name.
const (
	declared = "\t"
	printed  = "\t\t"
)

// listName is what hashOf returns.
var listName = regexp.MustCompile(`^[0-9a-f]{16}$`)

// EncodeHandlers returns the data of the node that lists an instance's handlers, and the hash that
// names the node. ok is false if the list is too long to be published. The jobs that the program
// declares at its start, with their fingerprints, are in it, too, if there is room for them, and
// without fingerprints if there is room for that; nil is left out.
//
// The hash is of the list, not of the compressed node: programs that compress differently share a
// node, and a version that knows no compression finds another hash, and reads registrations.
func EncodeHandlers(names []string, jobs map[string]string) (hash string, data []byte, ok bool) {
	text, data := encodeList(names)
	if data == nil {
		return "", nil, false
	}
	if jobs != nil {
		lines, prints := []string{declared}, []string(nil) // the first says that the jobs are all there
		for job, mark := range jobs {
			lines = append(lines, declared+job)
			if mark != "" {
				prints = append(prints, printed+job+"\t"+mark)
			}
		}
		for _, more := range [][]string{nil, prints} {
			if all, fits := encodeList(slices.Concat(lines, more, names)); fits != nil {
				text, data = all, fits
			}
		}
	}
	return hashOf(text), data, true
}

// encodeList returns a list as text, and as the data of a node: nil if that would be too long.
func encodeList(lines []string) (text, data []byte) {
	text = []byte(strings.Join(slices.Compact(slices.Sorted(slices.Values(lines))), "\n"))
	switch {
	case len(text) <= MaxHandlersBytes:
		return text, text
	case len(text) > maxHandlersText:
		return text, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text) // a buffer refuses nothing
	_ = w.Close()
	if b.Len() > MaxHandlersBytes {
		return text, nil
	}
	return text, b.Bytes()
}

// ParseHandlers reads a list of handlers whose node is named by hash. The list is sorted. Data of
// another hash is an error: nobody has published it.
func ParseHandlers(hash string, data []byte) ([]string, error) {
	lines, err := parseList(hash, data)
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, declared) }), err
}

// ParseDeclared reads from the same data which jobs the program declares at its start, with their
// fingerprints, which are empty if they were not published. known is false if the jobs were not.
func ParseDeclared(hash string, data []byte) (jobs map[string]string, known bool) {
	lines, err := parseList(hash, data)
	if err != nil || !slices.Contains(lines, declared) {
		return nil, false
	}
	jobs = make(map[string]string)
	for _, line := range lines { // a job's two lines come in any order
		if job, found := strings.CutPrefix(line, printed); found {
			job, mark, _ := strings.Cut(job, "\t")
			jobs[job] = mark
			continue
		}
		job, found := strings.CutPrefix(line, declared)
		if _, has := jobs[job]; found && job != "" && !has {
			jobs[job] = ""
		}
	}
	return jobs, true
}

func parseList(hash string, data []byte) ([]string, error) {
	if len(data) > MaxHandlersBytes {
		return nil, fmt.Errorf("list of handlers of %d bytes, at most %d are read", len(data), MaxHandlersBytes)
	}
	text, err := unzip(data)
	if err != nil {
		return nil, fmt.Errorf("compressed list of handlers: %w", err)
	}
	if found := hashOf(text); found != hash {
		return nil, fmt.Errorf("list of handlers %s has the hash %s", excerpt(text), found)
	}
	if len(text) == 0 {
		return nil, nil
	}
	return strings.Split(string(text), "\n"), nil
}

// unzip returns the text of a node with a list. A few kilobytes may stand for gigabytes: nobody
// reads more of them than an instance may write.
func unzip(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte(zipped)) {
		return data, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxHandlersText+1))
	if err == nil && len(text) > maxHandlersText {
		err = fmt.Errorf("more than %d bytes", maxHandlersText)
	}
	return text, err
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
