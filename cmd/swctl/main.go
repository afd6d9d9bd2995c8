// Command swctl submits, cancels and shows the timed jobs that the instances of an
// application share through ZooKeeper.
package main

import (
	_ "time/tzdata" // a slim container has no zone files, and jobs name zones

	"github.com/swjobs/singleworker/cmd/swctl/internal/commands"
)

func main() { commands.Main("swctl", nil, nil) }
