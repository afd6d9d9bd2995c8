package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
)

// profiled is a harness whose file has the profiles.
func profiled(t *testing.T, content string, mode os.FileMode) (h *harness, dir string) {
	t.Helper()
	h, dir = newHarness(t), t.TempDir()
	path := filepath.Join(dir, "profiles.json")
	writeFile(t, path, []byte(content))
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	h.vars = map[string]string{cmdline.EnvConfig: path}
	return h, dir
}

const twoProfiles = `{"profiles": {
	"prod": {"zk": "zk1:2181/prod", "server-type": "billing", "timeout": "3s", "auth-file": "ops.auth"},
	"test": {"zk": "zk9:2181", "server-type": "trial"}
}}`

// A flag comes before a variable, a variable before the profile, and that before the default.
func TestProfile(t *testing.T) {
	t.Parallel()
	h, dir := profiled(t, twoProfiles, 0o644)
	writeFile(t, filepath.Join(dir, "ops.auth"), []byte("ops:s3cret"))
	if code := h.exec("list", "--profile", "prod"); code != cmdline.ExitOK || h.config.Servers != "zk1:2181/prod" || h.config.ServerType != "billing" || h.config.Auth != "ops:s3cret" {
		t.Errorf("exit %d, %+v, %s", code, h.config, h.errs.String())
	}
	h.vars[cmdline.EnvProfile], h.vars[cmdline.EnvZK] = "prod", "env:2181"
	if code := h.exec("list", "--server-type", "own"); code != cmdline.ExitOK || h.config.Servers != "env:2181" || h.config.ServerType != "own" || h.config.Auth != "ops:s3cret" {
		t.Errorf("exit %d, %+v, %s", code, h.config, h.errs.String())
	}
	h.exec("config", "view", "--server-type", "own")
	rows := map[string]string{}
	for line := range strings.Lines(h.out.String()) {
		words := strings.Fields(line)
		rows[words[0]] = strings.Join(words[1:], " ")
	}
	for flag, want := range map[string]string{
		"--profile": "prod SWCTL_PROFILE", "--zk": "env:2181 SWCTL_ZK", "--server-type": "own --server-type", "--timeout": "3s profile prod",
		"--auth-file": filepath.Join(dir, "ops.auth") + " profile prod", "--tls-ca": "- default", "--output": "table default",
	} {
		if rows[flag] != want {
			t.Errorf("%s: %q, want %q", flag, rows[flag], want)
		}
	}
	if got := h.completed(t, "list --profile "); got != "prod test" {
		t.Errorf("profiles: %q", got)
	}
	delete(h.vars, cmdline.EnvZK) // which contradicts the profile
	if h.completed(t, "show --profile test n"); h.config.ServerType != "trial" {
		t.Errorf("names are those of %+v", h.config)
	}
}

// Without SWCTL_CONFIG the file is where configuration is.
func TestProfilesAreInHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, c := range []struct{ variable, value, dir string }{
		{"HOME", home, filepath.Join(home, ".config")},
		{"XDG_CONFIG_HOME", filepath.Join(home, "xdg"), filepath.Join(home, "xdg")},
	} {
		h := newHarness(t)
		h.vars[c.variable] = c.value
		if err := os.MkdirAll(filepath.Join(c.dir, "swctl"), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(c.dir, "swctl", "config.json"), []byte(`{"profiles": {"p": {"zk": "`+c.variable+`:1"}}}`))
		if code := h.exec("list", "--profile", "p"); code != cmdline.ExitOK || h.config.Servers != c.variable+":1" {
			t.Errorf("%s: exit %d, %+v, %s", c.variable, code, h.config, h.errs.String())
		}
	}
}

// A profile that is not as the line says reaches no server, and no error repeats a secret.
func TestProfileIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content string
		mode    os.FileMode
		vars    string
		args    string
		says    string
	}{
		{twoProfiles, 0o644, "SWCTL_ZK=other:1", "--profile prod", "SWCTL_ZK is other:1, and the profile prod has zk1:2181/prod\ntry: unset SWCTL_ZK, or --zk\n"},
		{twoProfiles, 0o644, "", "--profile prd", "no profile \"prd\"\ntry: prod\n"},
		{twoProfiles, 0o644, "", "--profile zzz", "no profile \"zzz\"\ntry: prod, test\n"},
		{twoProfiles, 0o666, "", "--profile prod", "others may change it (mode 0666)\ntry: chmod 600 "},
		{twoProfiles, 0o620, "", "--profile prod", "others may change it (mode 0620)\ntry: chmod 600 "},
		{`{"profiles": {"prod": {"auth": "ops:s3cret"}}}`, 0o600, "", "--profile prod", "prod: no setting \"auth\"\ntry: one of zk, "},
		{`{"profile": {"prod": {"auth": "ops:s3cret"}}}`, 0o600, "", "--profile prod", "unknown field \"profile\"\ntry: like {"},
		{`{"profiles": {}}`, 0o600, "", "--profile prod", "no profile \"prod\"\ntry: like {"},
		{`{`, 0o600, "", "--profile prod", "unexpected EOF"},
		{`{"profiles": {"prod": {"timeout": "soon"}}}`, 0o600, "SWCTL_PROFILE=prod", "", "--timeout \"soon\": want a duration"},
		{"", 0o600, "SWCTL_CONFIG=/nowhere/config.json", "--profile prod", "no such file or directory\ntry: create it, like {"},
		{"", 0o600, "SWCTL_CONFIG=/", "--profile prod", "is a directory"},
		{"", 0o600, "SWCTL_CONFIG=", "--profile prod", "neither SWCTL_CONFIG nor HOME says where"},
	} {
		h, _ := profiled(t, c.content, c.mode)
		h.vars[cmdline.EnvServerType] = "billing"
		if name, value, ok := strings.Cut(c.vars, "="); ok {
			h.vars[name] = value
		}
		code := h.exec(append([]string{"list"}, strings.Fields(c.args)...)...)
		if text := h.errs.String(); code != cmdline.ExitUsage || !strings.Contains(text, c.says) || strings.Contains(text, "s3cret") || len(h.fake.calls) > 0 {
			t.Errorf("%s, %s %s: exit %d, calls %q, %s", c.content, c.vars, c.args, code, h.fake.calls, text)
		}
	}
}

// Without a profile the file is not read.
func TestNoProfile(t *testing.T) {
	t.Parallel()
	h, _ := profiled(t, "{", 0o666)
	h.vars[cmdline.EnvServerType] = "billing"
	if code := h.exec("list"); code != cmdline.ExitOK {
		t.Errorf("exit %d, %s", code, h.errs.String())
	}
}
