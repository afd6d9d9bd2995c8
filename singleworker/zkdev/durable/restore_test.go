package durable_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/internal/zxids"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/zkdev/durable"
)

// copied is a backup of a directory.
func copied(t *testing.T, dir string) string {
	t.Helper()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.MkdirAll(filepath.Join(backup, "version-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"log.*", "snapshot.*"} {
		found, err := filepath.Glob(filepath.Join(dir, "version-2", kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(filepath.Join(backup, "version-2", filepath.Base(path)), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return backup
}

// contents is a text with all that a directory has.
func contents(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	found, err := filepath.Glob(filepath.Join(dir, "version-2", "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%q, %v", found, err)
	}
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %q\n", path, data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// TestRestore: a server on a restored directory has the nodes of the backup, with their creations
// and versions, and none of a session. A client whose session was in the backup gets a new one at
// once. All zxids there are above those that the lost server has used, by so much that a reader
// can tell. The backup is as it was.
func TestRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lost := serve(t, dir, "127.0.0.1:0")
	conn := connect(t, lost.Addr())
	was := conn.SessionID()
	created := func(path string, flags int32) *zk.Stat {
		t.Helper()
		if _, err := conn.Create(path, []byte("data"), flags, zk.DigestACL(zk.PermAll, "u", "p")); err != nil {
			t.Fatal(err)
		}
		_, stat, err := conn.Exists(path)
		if err != nil {
			t.Fatal(err)
		}
		return stat
	}
	if err := conn.AddAuth("digest", []byte("u:p")); err != nil {
		t.Fatal(err)
	}
	kept := created("/kept", 0)
	created("/kept/ephemeral", zk.FlagEphemeral)
	backup := copied(t, dir)
	before := contents(t, backup) // the last log has preallocated bytes behind its end
	last := created("/late", 0).Czxid
	if err := lost.Close(); err != nil {
		t.Fatal(err)
	}

	to := filepath.Join(t.TempDir(), "restored")
	restored, err := durable.Restore(backup, to, []string{dir}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if restored.Last < kept.Czxid || restored.Last >= last || !zxids.Restored(last, restored.Above) {
		t.Errorf("%+v, after %#x and %#x", restored, kept.Czxid, last)
	}
	if contents(t, backup) != before {
		t.Error("the backup has changed")
	}
	if _, err := durable.Restore(backup, to, nil, 0); !errors.Is(err, os.ErrExist) {
		t.Errorf("again: %v, want os.ErrExist", err)
	}

	after := serve(t, to, lost.Addr())
	defer after.Close()
	data, stat, err := conn.Get("/kept") // in the next session, as soon as that has begun
	for errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrSessionExpired) {
		data, stat, err = conn.Get("/kept")
	}
	if err != nil || string(data) != "data" || stat.Czxid != kept.Czxid || stat.Version != 0 || stat.Mzxid != restored.Above || stat.NumChildren != 0 {
		t.Errorf("%q %+v, %v, want %+v", data, stat, err, kept)
	}
	if conn.SessionID() == was {
		t.Error("the session goes on")
	}
	if there, _, err := conn.Exists("/late"); there || err != nil {
		t.Errorf("what came after the backup: %t, %v", there, err)
	}
	if next := created("/new", 0); next.Czxid <= restored.Above {
		t.Errorf("the next transaction is %#x, want it above %#x", next.Czxid, restored.Above)
	}
	second, err := durable.Restore(backup, filepath.Join(t.TempDir(), "second"), []string{to}, 0)
	if err != nil || !zxids.Restored(restored.Above, second.Above) {
		t.Errorf("restored once more: %+v, %v, after %+v", second, err, restored)
	}
}

// TestRestoreAbove: the numbers of a restored directory are above each that is known of the lost
// servers: by the backup, by an operator, and by the epochs of a member that has logged nothing in
// its last one. A lost directory need not be whole.
func TestRestoreAbove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := serve(t, dir, "127.0.0.1:0").Close(); err != nil {
		t.Fatal(err)
	}
	member := filepath.Join(t.TempDir(), "member")
	if err := os.MkdirAll(filepath.Join(member, "version-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"log.500000007": "torn", "snapshot.400000001.gz": "", "acceptedEpoch": "9", "currentEpoch": "8"} {
		if err := os.WriteFile(filepath.Join(member, "version-2", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	for name, c := range map[string]struct {
		lost  []string
		above int64
		epoch int64
	}{
		"nothing is known":       {nil, 0, zxids.Leap},
		"an operator knows":      {nil, 0x700000003, 7 + zxids.Leap},
		"a member is left":       {[]string{member}, 0, 9 + zxids.Leap},
		"one is left, and other": {[]string{dir, member}, 0x700000003, 9 + zxids.Leap},
	} {
		got, err := durable.Restore(dir, filepath.Join(to, name), c.lost, c.above)
		if want := c.epoch << zxids.EpochBits; err != nil || got.Above != want {
			t.Errorf("%s: above %#x, %v, want %#x", name, got.Above, err, want)
		}
	}
	for name, c := range map[string]struct {
		backup string
		lost   []string
		above  int64
		is     func(error) bool
	}{
		"an empty backup":     {t.TempDir(), nil, 0, func(err error) bool { return errors.Is(err, durable.ErrEmpty) }},
		"no lost directory":   {dir, []string{filepath.Join(to, "nowhere")}, 0, func(err error) bool { return errors.Is(err, durable.ErrEmpty) }},
		"no snapshot":         {member, nil, 0, func(err error) bool { return errors.Is(err, durable.ErrCompressed) }},
		"no numbers are left": {dir, nil, 1<<63 - 1, func(err error) bool { return errors.As(err, new(*invalid.FieldError)) }},
		"no place to write":   {filepath.Join(to, "nowhere"), nil, 0, func(err error) bool { return errors.Is(err, durable.ErrEmpty) }},
	} {
		if _, err := durable.Restore(c.backup, filepath.Join(to, "failed"), c.lost, c.above); !c.is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil || len(left) != 4 {
		t.Errorf("%q, %v", left, err)
	}
}
