//go:build !unix

package jobs

import (
	"errors"
	"os/exec"
)

const hasProcessGroups = false

func runGroup(*exec.Cmd) error { return errors.ErrUnsupported }
