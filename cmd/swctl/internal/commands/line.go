package commands

import (
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Flags of more than one command.
const (
	flagAll    = "all"
	flagBy     = "by"
	flagData   = "data"
	flagDryRun = "dry-run"
	flagFailed = "failed"
	flagFile   = "file"
	flagHost   = "host"
	flagJob    = "job"
	flagNumber = "n"
	flagReason = "reason"
	flagSince  = "since"
	flagTo     = "to"
	flagUntil  = "until"
	flagWait   = "wait"
	flagYes    = "yes"

	flagConfirm = "confirm"
)

const (
	inRecords = "in the records"
	inLog     = "in the log (swctl log)"
)

// whoFlags say who asks for something, and why, which is kept somewhere.
func whoFlags(kept string) []cmdline.Flag {
	return []cmdline.Flag{
		{Name: flagReason, Usage: "`TEXT` why; kept " + kept},
		{Name: flagBy, Usage: "`NAME` who asks (default: user@host)"},
	}
}

func yesFlag() cmdline.Flag { return cmdline.Flag{Name: flagYes, Alias: "y", Usage: "do not ask"} }

func filesFlag() cmdline.Flag {
	return cmdline.Flag{Name: flagFile, Alias: "f", Usage: "`PATH` of a file with jobs, or of a directory with files, or - for stdin; may be repeated", Repeated: true}
}

// jobName is the only argument: the name of a job, or of a shard if the command takes that.
func jobName(c *cmdline.Call) (string, error) {
	if len(c.Args) != 1 {
		return "", cmdline.Usage("%s needs the name of one job", c.Command).Try("swctl %s NAME; swctl list shows all jobs", c.Command)
	}
	return c.Args[0], nil
}

// wholeJobName is the only argument: the name of a job.
func wholeJobName(c *cmdline.Call) (string, error) {
	name, err := jobName(c)
	if err == nil {
		err = wholeJobs(c, name)
	}
	return name, err
}

// wholeJobs refuses the name of a shard where only a job will do.
func wholeJobs(c *cmdline.Call, names ...string) error {
	for _, name := range names {
		if of, _, ok := job.SplitShard(name); ok {
			return cmdline.Usage("%s works on a whole job, and %s is one of its shards", c.Command, name).
				Try("swctl %s %s", c.Command, plain.Quoted(of))
		}
	}
	return nil
}

// nameAndID is the name of a job, and the ID of one of its runs or requests if that is given; the
// command where shows the IDs.
func nameAndID(c *cmdline.Call, what, where string) (name, id string, err error) {
	switch {
	case len(c.Args) == 0 || len(c.Args) > 2:
		return "", "", cmdline.Usage("%s needs the name of one job, and optionally the ID of a %s", c.Command, what).Try("swctl %s NAME; swctl %s NAME shows the IDs", c.Command, where)
	case len(c.Args) == 1:
		return c.Args[0], "", nil
	case c.Args[1] == "":
		return "", "", cmdline.Usage("%s: the ID of the %s is empty", c.Command, what).Try("leave it out, or look whether a shell variable is unset")
	}
	return c.Args[0], c.Args[1], nil
}

// jobOf is the job of a name that may be a shard's, or a job's at an instance.
func jobOf(name string) string {
	if of, sid, part := strings.Cut(name, "/"); part && job.CheckNodeName(sid) == nil {
		return of
	}
	of, _, _ := job.SplitShard(name)
	return of
}

// instanceID is the only argument: the ID of an instance.
func instanceID(c *cmdline.Call) (string, error) {
	if len(c.Args) != 1 {
		return "", cmdline.Usage("%s needs one id of an instance", c.Command).Try("swctl %s ID; swctl instances lists them", c.Command)
	}
	return c.Args[0], nil
}
