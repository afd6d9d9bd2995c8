package singleworker

import (
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
)

// declare writes a job that the program declares while it runs.
func (w *bridge) declare(ctx context.Context, d member.Declaration) error {
	if err := running(w.coord.Declare(ctx, d)); err != nil {
		return fmt.Errorf("singleworker: declare job %q: %w", d.Job.Name, err)
	}
	return nil
}

// running returns an error of the coordinator as ErrNotRunning if it means that Run has ended.
func running(err error) error {
	if errors.Is(err, session.ErrEnded) {
		return ErrNotRunning
	}
	return err
}
