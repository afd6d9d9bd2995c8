package swtest

import (
	"testing"
	"time"
)

// Stuck plays a Plan without faults, and returns why it does not end.
func Stuck(t *testing.T, plan Plan) (err error) {
	t.Helper()
	x := explorer{t: t, plan: plan.withDefaults(), patience: 50 * time.Millisecond, fail: func(e error) { err = e }}
	x.play(1, nil)
	return err
}
