package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestImportGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var texts []string
	for _, args := range [][]string{
		{"import", "crontab", "-", "--tz", "Europe/Berlin"},
		{"import", "crontab", "-", "--tz", "Europe/Berlin", "-o", "json"},
		{"import", "crontab", "-"}, {"import", "crontab"}, {"import", "crontab", "-", "--tz", "Moon/Tycho"}, {"import", "yaml", "-"},
		{"import", "quartz", "../imports/testdata/quartz.xml", "--tz", "Europe/Berlin"}, {"import", "quartz", "-"}, {"import", "quartz", "-", "--system"},
		{"import", "elasticjob", "--namespace", "prod", "--tz", "UTC"}, {"import", "elasticjob", "--namespace", "absent"},
		{"import", "elasticjob"}, {"import", "crontab", "-", "--namespace", "prod"}, {"import", "elasticjob", "--namespace", "prod", "--system"},
	} {
		h.fake.foreign = []admin.ForeignNode{
			{Name: "orders", Data: []byte("com.example.Orders"), Below: []byte("cron: 0 0 3 * * ?\nshardingTotalCount: 2\n"), Found: true},
			{Name: "broken", Below: []byte("{"), Found: true},
		}
		h.fake.fail["Foreign absent"] = fmt.Errorf("read /absent: %w", admin.ErrNotFound)
		h.Stdin = strings.NewReader("0 3 * * * /usr/bin/backup --full\n@reboot /usr/bin/warm\n")
		texts = append(texts, h.transcript(args...))
	}
	golden(t, "import", strings.Join(texts, "\n"))
	if want := []string{"Dial", "Foreign prod", "Close", "Dial", "Foreign absent", "Close"}; !slices.Equal(h.fake.calls, want) {
		t.Errorf("calls to the server: %q, want %q", h.fake.calls, want)
	}
}

// What import writes, submit reads; and nothing that is there is overwritten.
func TestImportedFilesAreSubmitted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := file(t, "crontab", "0 3 * * * /usr/bin/backup --full\n30 4 * * 1 /usr/bin/sweep | logger\n")
	list, each := filepath.Join(dir, "jobs.json"), filepath.Join(dir, "jobs")+"/"
	onGroup(t, func(t *testing.T, h *harness) {
		t.Helper()
		for _, to := range []string{list, each} {
			if code := h.exec("import", "crontab", source, "--tz", "UTC", "--to", to); code != cmdline.ExitOK || !strings.Contains(h.out.String(), "wrote 2 jobs to "+to) {
				t.Fatalf("exit %d, %s%s", code, h.out.String(), h.errs.String())
			}
			if code := h.exec("import", "crontab", source, "--tz", "UTC", "--to", to); code != cmdline.ExitUsage || !strings.Contains(h.errs.String(), "file exists") {
				t.Errorf("again: exit %d, %s%s", code, h.out.String(), h.errs.String())
			}
		}
		for _, step := range [][2]string{{list, "created backup v1"}, {each + "backup.json", "unchanged backup v1"}, {each + "sweep.json", "unchanged sweep v1"}} {
			if code := h.exec("submit", "--file", step[0]); code != cmdline.ExitOK || !strings.Contains(h.out.String(), step[1]) {
				t.Errorf("submit %s: exit %d, %s%s", step[0], code, h.out.String(), h.errs.String())
			}
		}
		h.exec("next", "backup", "-n", "1")
		if !strings.Contains(h.out.String(), "2026-11-22 03:00:00 UTC") {
			t.Errorf("the next tick of backup: %s", h.out.String())
		}
	})
	if entries, err := os.ReadDir(each); err != nil || len(entries) != 2 {
		t.Errorf("%d files, %v", len(entries), err)
	}
}
