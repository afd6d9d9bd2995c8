package commands

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestFreezeGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	texts := []string{
		h.transcript("freeze"), h.transcript("freeze", "--for", "2h", "--except", "nightly", "--except", "orphan", "--reason", "database upgrade", "--by", "ops"),
		h.transcript("freeze", "--until", "2026-11-21 18:00", "-o", "json"), h.transcript("freeze", "--until", "soon"), h.transcript("freeze", "--for", "1h", "--until", "18:00"),
		h.transcript("freeze", "nightly"), h.transcript("unfreeze"), h.transcript("unfreeze", "--missed", "once"), h.transcript("unfreeze", "--missed", "once", "-o", "json"),
		h.transcript("unfreeze", "nightly"), h.transcript("pause", "--all", "--for", "2h"), h.transcript("resume", "--all", "--missed", "once"),
		h.transcript("pause", "--all", "nightly"), h.transcript("resume", "--all", "nightly"),
	}
	h.fake.fail["Freeze [nobody]"] = fmt.Errorf("freeze except nobody: %w", admin.ErrNotFound)
	h.fake.fail["Freeze []"] = fmt.Errorf("freeze: %w", admin.ErrNoGroup)
	texts = append(texts, h.transcript("freeze", "--except", "nobody"), h.transcript("freeze"))
	golden(t, "freeze", strings.Join(texts, "\n"))
}
