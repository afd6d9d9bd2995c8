package commands

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/files"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// filePaths lists the files that the line names.
func filePaths(c *cmdline.Call) ([]string, error) {
	paths := c.Flags.StringSlice(flagFile)
	switch {
	case len(c.Args) > 0:
		return nil, cmdline.Usage("%s takes no arguments", c.Command).Try("swctl %s -f %s", c.Command, plain.Quoted(c.Args[0]))
	case len(paths) == 0 || slices.Contains(paths, ""):
		return nil, cmdline.Usage("%s needs a file", c.Command).Try("swctl %s -f FILE, a directory, or - for stdin", c.Command)
	}
	return paths, nil
}

// readFiles reads the files that the line names, all of which must be right.
func readFiles(c *cmdline.Call) (files.Contents, error) {
	paths, err := filePaths(c)
	if err != nil {
		return files.Contents{}, err
	}
	found, problems := files.Read(paths, c.Stdin)
	if len(problems) == 0 {
		return found, nil
	}
	for _, problem := range problems[1:] {
		c.Remark(problem.String())
	}
	return files.Contents{}, cmdline.Usage("%s: %s; nothing was changed", c.Command, problems[0]).
		Try("swctl validate -f FILE checks files without a server")
}

// readInput reads a file, or stdin for "-".
func readInput(c *cmdline.Call, path string) ([]byte, error) {
	in := c.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, cmdline.Usage("%s: %w", c.Command, err).Try("the path of a file that you may read, or - for stdin")
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, files.MaxFile+1))
	switch {
	case err != nil:
		return nil, cmdline.Usage("%s: read %s: %w", c.Command, path, err).Try("the path of a file that you may read, or - for stdin")
	case len(text) > files.MaxFile:
		return nil, cmdline.Usage("%s: %s has more than %d MiB", c.Command, path, files.MaxFile>>20).Try("smaller files")
	}
	return text, nil
}

// writeJobs writes documents where --to says, and overwrites nothing. In a directory the files have
// that ending, and calendars and limits have directories.
func writeJobs(c *cmdline.Call, of files.Documents, ending string) (wrote []string, err error) {
	to := c.Flags.String(flagTo)
	if to == "" {
		return nil, nil
	}
	info, err := os.Stat(to)
	if !strings.HasSuffix(to, "/") && (err != nil || !info.IsDir()) {
		return []string{to}, writeNew(to, of.All()...)
	}
	for _, document := range of.All() {
		under, name := to, ""
		switch of := document.(type) {
		case files.Calendar:
			under, name = filepath.Join(to, "calendars"), of.Name
		case files.Limit:
			under, name = filepath.Join(to, "limits"), of.Name
		case job.Job:
			name = of.Name
		}
		path := filepath.Join(under, name+ending)         // names have no /
		if err := os.MkdirAll(under, 0o755); err != nil { //nolint:gosec // others may read jobs
			return wrote, cmdline.Usage("--%s %s: %w", flagTo, to, err)
		}
		if err := writeNew(path, document); err != nil {
			return wrote, err
		}
		wrote = append(wrote, path)
	}
	return wrote, nil
}

// writeNew writes documents to a new file: as YAML if its name says so, and otherwise as JSON.
func writeNew(path string, documents ...any) error {
	var text bytes.Buffer
	var err error
	switch filepath.Ext(path) {
	case ".yaml", ".yml":
		var yaml []byte
		yaml, err = files.YAML(documents...)
		text.Write(yaml)
	default:
		err = plain.JSON(&text, "  ", documents)
	}
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // others may read jobs
	if err != nil {
		return cmdline.Usage("--%s: %w", flagTo, err).Try("a path where nothing is: no file is overwritten")
	}
	_, err = file.Write(text.Bytes())
	return errors.Join(err, file.Close())
}
