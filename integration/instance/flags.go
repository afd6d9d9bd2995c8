// Package instance has the common parts of the instances that packages bench and chaos start as
// processes.
package instance

import (
	"flag"

	"github.com/swjobs/singleworker/singleworker"
)

// Flags defines the flags that say which instance of which group a process is. Parsed, they are in
// cfg.
func Flags(cfg *singleworker.Config) {
	flag.StringVar(&cfg.Servers, "servers", "", "connect string")
	flag.StringVar(&cfg.ServerType, "group", "", "name of the group")
	flag.StringVar(&cfg.InstanceID, "id", "", "name of this instance")
	flag.DurationVar(&cfg.SessionTimeout, "session", 0, "session timeout")
}
