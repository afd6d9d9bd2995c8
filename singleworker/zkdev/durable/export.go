package durable

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// ErrEmpty is returned by Export for a directory without data.
var ErrEmpty = errors.New("there is no data in the directory")

// configuration is the zoo.cfg of a member, but for the addresses. Its session timeouts are those
// that a Server grants.
const configuration = `# Made by swctl serve export. The directory data beside it belongs in dataDir.
dataDir=/var/lib/zookeeper
clientPort=2181
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=60000
initLimit=20
syncLimit=10
autopurge.purgeInterval=24
4lw.commands.whitelist=srvr,mntr
`

// Export writes, for each host of an ensemble, all that its Apache ZooKeeper begins with: in the
// directory to, which it creates, there is one directory for each, named by the host, with data and
// zoo.cfg. Each member has all of the data, because empty ones could outvote one that has it. No
// server may be open on dir meanwhile, or later while the ensemble lives. It returns ErrInUse,
// ErrEmpty, ErrDamaged, ErrCompressed, an *invalid.FieldError, or an error of the file system,
// which leaves a part of to.
func Export(dir, to string, hosts []string) error {
	if err := checkHosts(hosts); err != nil {
		return err
	}
	from := filepath.Join(dir, "version-2")
	if _, err := os.Stat(from); err != nil {
		return errors.Join(ErrEmpty, err)
	}
	locked, err := lock(filepath.Join(from, "lock"))
	if err != nil {
		return err
	}
	err = export(directory(from), to, hosts)
	return errors.Join(err, locked.Close())
}

func checkHosts(hosts []string) error {
	if len(hosts) == 0 {
		return &invalid.FieldError{Field: "Hosts", Err: errors.New("want at least one host")}
	}
	for i, host := range hosts {
		switch {
		case host == "" || strings.HasPrefix(host, ".") || strings.ContainsAny(host, "/\\: \t\r\n"):
			return &invalid.FieldError{Field: "Hosts", Value: host, Err: errors.New("want the name of a host, without a port")}
		case slices.Contains(hosts[:i], host):
			return &invalid.FieldError{Field: "Hosts", Value: host, Err: errors.New("want each host once")}
		}
	}
	return nil
}

func export(from directory, to string, hosts []string) error {
	s := newStore(from, slog.New(slog.DiscardHandler))
	have, err := s.list()
	if err != nil {
		return err
	}
	if len(have.images) == 0 {
		return ErrEmpty
	}
	// The end of the last log may be torn.
	if _, err := s.Recover(func(int64, *txnlog.Snapshot, []txnlog.Node) error { return nil }, func(*txnlog.Txn) error { return nil }); err != nil {
		return err
	}
	names, err := from.list()
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for i, host := range hosts {
		if err := exportMember(from, names, filepath.Join(to, host), i+1, hosts); err != nil {
			return fmt.Errorf("member %s: %w", host, err)
		}
	}
	return nil
}

// exportMember writes the directory of one member.
func exportMember(from directory, names []string, to string, number int, hosts []string) error {
	data := filepath.Join(to, "data")
	files := directory(filepath.Join(data, "version-2"))
	if err := os.MkdirAll(string(files), 0o700); err != nil {
		return err
	}
	for _, name := range names {
		_, _, ok := txnlog.ParseName(name)
		if !ok && name != acceptedEpoch && name != currentEpoch {
			continue
		}
		if err := copyFile(from, files, name); err != nil {
			return err
		}
	}
	var config strings.Builder
	config.WriteString(configuration)
	for i, host := range hosts {
		fmt.Fprintf(&config, "server.%d=%s:2888:3888\n", i+1, host)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(number)+"\n"), 0o600),
		os.WriteFile(filepath.Join(to, "zoo.cfg"), []byte(config.String()), 0o600),
	)
}

func copyFile(from, to directory, name string) error {
	in, err := from.open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.create(name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.sync(), out.Close())
}
