package txnlog

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// File is a log or a snapshot.
type File struct {
	Path string
	// Zxid is in the name: of a log, its first transaction; of a snapshot, the last one before it
	// was begun.
	Zxid int64
	Size int64
}

// Files are a server's, in the order of their zxids.
type Files struct {
	Logs, Snapshots []File
}

// versionDir is where ZooKeeper has its files, below dataDir and dataLogDir.
const versionDir = "version-2"

// List finds the logs and snapshots in a directory and in version-2 below it: dir is dataDir or
// dataLogDir in the server's configuration. Other files are ignored.
func List(dir string) (Files, error) {
	var found Files
	for _, in := range []string{dir, filepath.Join(dir, versionDir)} {
		entries, err := os.ReadDir(in)
		if err != nil && (in == dir || !os.IsNotExist(err)) {
			return Files{}, fmt.Errorf("%w: %w", ErrFile, err)
		}
		for _, entry := range entries {
			kind, zxid, ok := ParseName(entry.Name())
			if !ok {
				continue
			}
			file := File{Path: filepath.Join(in, entry.Name()), Zxid: zxid}
			info, err := os.Stat(file.Path)
			if os.IsNotExist(err) {
				continue // purged meanwhile
			}
			if err != nil {
				return Files{}, fmt.Errorf("%w: %w", ErrFile, err)
			}
			if !info.Mode().IsRegular() {
				continue
			}
			if file.Size = info.Size(); kind == LogPrefix {
				found.Logs = append(found.Logs, file)
			} else {
				found.Snapshots = append(found.Snapshots, file)
			}
		}
	}
	byZxid := func(a, b File) int { return cmp.Compare(a.Zxid, b.Zxid) }
	slices.SortFunc(found.Logs, byZxid)
	slices.SortFunc(found.Snapshots, byZxid)
	return found, nil
}

// The kinds of files, with which their names begin.
const (
	LogPrefix      = "log"
	SnapshotPrefix = "snapshot"
)

// ParseName reads names such as log.1a2b and snapshot.1a2b.gz.
func ParseName(name string) (kind string, zxid int64, ok bool) {
	kind, hex, _ := strings.Cut(name, ".")
	if kind == SnapshotPrefix {
		hex = strings.TrimSuffix(hex, gzipped)
	} else if kind != LogPrefix {
		return "", 0, false
	}
	zxid, err := strconv.ParseInt(hex, 16, 64)
	return kind, zxid, err == nil && zxid >= 0
}

const gzipped = ".gz"

// Visit opens the snapshot and calls ReadSnapshot.
func (f File) Visit(visit func(Node)) (*Snapshot, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(f.Path, gzipped) {
		if in, err = gzip.NewReader(file); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", f.Path, ErrCorrupt, err)
		}
	}
	s, err := ReadSnapshot(in, visit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return s, nil
}
