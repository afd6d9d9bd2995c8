// Command check looks at what a demonstration left behind and says what it
// proves. It knows nothing of ZooKeeper and runs nothing: it reads the
// directory that sample/cluster.sh fills.
//
//	ledger            one JSON line a run, by all instances (see sample/app)
//	events            what was done to the instances, and when (see [readEvents])
//	before-kill.json  swctl list -o json, just before and after an instance was
//	after-kill.json   killed, and just before and after one was stopped
//	before-stop.json
//	after-stop.json
//
// Every tick that is due is computed here from the job's period, a second
// time and in another way than the library does.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

const usage = `usage: check COMMAND

  busiest LIST         print the instance that owns most jobs, and how many
  shares LIST SID...   print how many jobs each instance owns; fails unless each job
                       is owned by one of them, and their numbers differ by at most one
  moved DIR kill|stop  print where the jobs of the instance went that was killed or
                       stopped; fails while one has not run elsewhere
  verdict DIR          print PASS and the figures, or FAIL and why

LIST is the output of swctl list -o json, DIR a directory that cluster.sh fills.
`

// errFailed is the answer "no", which has been printed.
var errFailed = errors.New("failed")

func main() {
	err := run(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, errFailed):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	command, args := strings.Join(args[:min(1, len(args))], ""), args[min(1, len(args)):]
	switch {
	case command == "busiest" && len(args) == 1:
		return busiest(out, args[0])
	case command == "shares" && len(args) > 1:
		return shares(out, args[0], args[1:])
	case command == "moved" && len(args) == 2:
		return moved(out, args[0], args[1])
	case command == "verdict" && len(args) == 1:
		return verdict(out, args[0])
	}
	fmt.Fprint(out, usage)
	return errFailed
}

func busiest(out io.Writer, list string) error {
	owners, err := readOwners(list)
	if err != nil {
		return err
	}
	most, counts := "", countOwned(owners)
	for sid, count := range counts {
		if count > counts[most] || count == counts[most] && sid < most {
			most = sid
		}
	}
	if most == "" {
		return errors.New("no job has an owner")
	}
	fmt.Fprintln(out, most, counts[most])
	return nil
}

// shares prints "3-3-3", in the order of sids.
func shares(out io.Writer, list string, sids []string) error {
	owners, err := readOwners(list)
	if err != nil {
		return err
	}
	counts := countOwned(owners)
	least, most, sum := len(owners), 0, 0
	var texts []string
	for _, sid := range sids {
		least, most, sum = min(least, counts[sid]), max(most, counts[sid]), sum+counts[sid]
		texts = append(texts, strconv.Itoa(counts[sid]))
	}
	switch text := strings.Join(texts, "-"); {
	case sum < len(owners):
		return fmt.Errorf("shares %s: %d of %d jobs are owned by none of these", text, len(owners)-sum, len(owners))
	case most-least > 1:
		return fmt.Errorf("shares %s differ by more than one", text)
	default:
		fmt.Fprintln(out, text)
		return nil
	}
}
