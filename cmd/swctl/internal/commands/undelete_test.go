package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestUndeleteGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	gone := &admin.CanceledError{Name: "gone", At: testNow.Add(-time.Hour), By: "bob", From: "root@vm", Reason: "too loud"}
	h.fake.fail["Get gone"] = fmt.Errorf("job %q: %w", gone.Name, gone)
	h.fake.fail["Undelete orphan "] = fmt.Errorf("undelete orphan: %w: the name orphan is used again", admin.ErrExists)
	golden(t, "undelete", strings.Join([]string{
		h.transcript("show", "gone"), h.transcript("undelete", "nightly"), h.transcript("undelete", "nightly", "-o", "json"),
		h.transcript("undelete", "orphan"), h.transcript("undelete", "nightly[1]"), h.transcript("undelete"),
	}, "\n"))
}

func TestVersionsGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.fail["Version nightly 9"] = fmt.Errorf("job nightly: %w: 9 is not kept, there is 3, 2, 1", admin.ErrNoVersion)
	golden(t, "versions", strings.Join([]string{
		h.transcript("show", "nightly", "--version", "2"), h.transcript("show", "nightly", "--version", "2", "--diff"),
		h.transcript("show", "nightly", "--version", "2", "--diff", "-o", "json"), h.transcript("show", "nightly", "--version", "9"),
		h.transcript("show", "nightly", "--diff"), h.transcript("show", "nightly", "--version", "0"), h.transcript("show", "nightly[1]", "--version", "1"),
		h.transcript("rollback", "nightly", "--to", "2"), h.transcript("rollback", "nightly", "--to", "2", "-o", "json"),
		h.transcript("rollback", "nightly"), h.transcript("rollback"), h.transcript("rollback", "nightly[1]", "--to", "1"),
	}, "\n"))
}
