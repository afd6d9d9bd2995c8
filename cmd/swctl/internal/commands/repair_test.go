package commands

import (
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func spoiltTick() []admin.UnreadableNode {
	return []admin.UnreadableNode{{
		Path: "/billing/nightly/tick", Job: "nightly", Loss: admin.LossTicks, Error: "tick record \"\x1b[31m\": invalid character",
	}}
}

func TestRepairAsks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, answer string
		want         cmdline.ExitCode
		repaired     bool
	}{
		{"repair nightly", "y\n", cmdline.ExitOK, true},
		{"repair nightly", "Yes\n", cmdline.ExitOK, true},
		{"repair nightly", "n\n", cmdline.ExitUnconfirmed, false},
		{"repair nightly", "", cmdline.ExitUnconfirmed, false},
		{"repair nightly --yes", "", cmdline.ExitOK, true},
		{"repair nobody --yes", "", cmdline.ExitNotFound, false},
		{"repair", "", cmdline.ExitUsage, false},
		{"repair nightly weekly", "", cmdline.ExitUsage, false},
		{"repair nightly[1] --yes", "", cmdline.ExitUsage, false},
	} {
		h := newHarness(t)
		h.fake.unreadable = spoiltTick()
		h.atTerminal(c.answer)
		code := h.exec(strings.Fields(c.line)...)
		if repaired := slices.Contains(h.fake.calls, "Repair nightly: 1"); code != c.want || repaired != c.repaired {
			t.Errorf("%s, answer %q: exit %d, want %d; repaired %v\n%s", c.line, c.answer, code, c.want, repaired, h.errs.String())
		}
	}
}

func TestRepairSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.unreadable = spoiltTick()
	h.atTerminal("n\n")
	h.exec("repair", "nightly")
	text := h.errs.String()
	for _, part := range []string{"/billing/nightly/tick cannot be read", "lost: which ticks were run", "nothing was written"} {
		if !strings.Contains(text, part) {
			t.Errorf("stderr %q, want %q in it", text, part)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("a control character reaches the terminal: %q", text)
	}
}

func TestRepairWithoutATerminal(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.unreadable = spoiltTick()
	if code := h.exec("repair", "nightly"); code != cmdline.ExitUnconfirmed {
		t.Errorf("exit %d, want %d: there is nobody to ask", code, cmdline.ExitUnconfirmed)
	}
	if code := h.exec("repair", "nightly", "--yes", "-o", "json"); code != cmdline.ExitOK ||
		!strings.Contains(h.out.String(), `"lost": "ticks"`) {
		t.Errorf("exit %d, stdout %s", code, h.out.String())
	}
}

func TestRepairLeavesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(n *admin.UnreadableNode){
		"upgrade": func(n *admin.UnreadableNode) { n.Newer = true },
		"submit":  func(n *admin.UnreadableNode) { n.Loss = admin.LossSpec },
	} {
		h := newHarness(t)
		h.fake.unreadable = spoiltTick()
		change(&h.fake.unreadable[0])
		if code := h.exec("repair", "nightly", "--yes"); code == cmdline.ExitOK || !strings.Contains(h.errs.String(), what) {
			t.Errorf("exit %d, stderr %q; want it to say %s", code, h.errs.String(), what)
		}
		if slices.Contains(h.fake.calls, "Repair nightly: 1") {
			t.Errorf("%s: written nevertheless", what)
		}
	}
	h := newHarness(t)
	if code := h.exec("repair", "nightly", "--yes"); code != cmdline.ExitOK || !strings.Contains(h.out.String(), "needs no repair") {
		t.Errorf("exit %d, stdout %q; want that nothing is to be repaired", code, h.out.String())
	}
}
