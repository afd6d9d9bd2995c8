//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package jsonl

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// owned is a file of some user.
type owned struct {
	fs.FileInfo

	uid uint32
}

func (o owned) Sys() any { return &syscall.Stat_t{Uid: o.uid} }

// A directory of another user is told from root's and this one's.
func TestOwner(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := ownerOf(info); got != os.Geteuid() {
		t.Errorf("of this user's directory: %d, want %d", got, os.Geteuid())
	}
	for uid, fine := range map[int]bool{0: true, os.Geteuid(): true, os.Geteuid() + 1: false} {
		if err := checkOwner("dir", owned{info, uint32(uid)}); (err == nil) != fine {
			t.Errorf("user %d: %v", uid, err)
		}
	}
}
