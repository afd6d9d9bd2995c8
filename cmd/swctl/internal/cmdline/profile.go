package cmdline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Where profiles are.
const (
	FlagProfile = "profile"
	EnvProfile  = "SWCTL_PROFILE"
	EnvConfig   = "SWCTL_CONFIG"

	profileExample = `{"profiles": {"prod": {"zk": "zk1:2181,zk2:2181/prod", "server-type": "billing", "auth-file": "billing.auth"}}}`
)

// inProfile are the shared flags that a profile may set. None of them holds a secret.
var inProfile = []string{FlagZK, FlagServerType, FlagTimeout, FlagAuthFile, FlagTLSCA, FlagTLSCert, FlagTLSKey}

// profile holds values of shared flags, by their names.
type profile map[string]string

// configFile is the file with the profiles. It is empty if nothing says where it is.
func (a *App) configFile() string {
	if path := a.Env(EnvConfig); path != "" {
		return path
	}
	dir := a.Env("XDG_CONFIG_HOME")
	if home := a.Env("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "swctl", "config.json")
}

// profiles reads the file with the profiles.
func (a *App) profiles() (map[string]profile, error) {
	path := a.configFile()
	if path == "" {
		return nil, Usage("profiles: neither %s nor HOME says where their file is", EnvConfig)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Usage("profiles: %w", err).Try("create it, like %s", profileExample)
	}
	info, statErr := os.Stat(path)
	if err = cmp.Or(err, statErr); err != nil {
		return nil, Usage("profiles: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 && runtime.GOOS != "windows" {
		return nil, Usage("profiles: %s: others may change it (mode %04o)", path, mode).Try("chmod 600 %s", path)
	}
	var content struct {
		Profiles map[string]profile `json:"profiles"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&content); err != nil {
		return nil, Usage("profiles: %s: %w", path, err).Try("like %s", profileExample)
	}
	for name, p := range content.Profiles {
		for _, key := range slices.Sorted(maps.Keys(p)) {
			if !slices.Contains(inProfile, key) { // its value may be a secret
				return nil, Usage("profiles: %s: %s: no setting %q", path, name, key).Try("one of %s", strings.Join(inProfile, ", "))
			}
			isFile := strings.HasSuffix(key, "-file") || strings.HasPrefix(key, "tls-")
			if isFile && p[key] != "" && !filepath.IsAbs(p[key]) {
				p[key] = filepath.Join(filepath.Dir(path), p[key])
			}
		}
	}
	return content.Profiles, nil
}

// readProfile reads the profile that the flag or the variable names, if one does.
func (r *reader) readProfile() {
	r.name = r.text(FlagProfile, EnvProfile, "")
	if r.name == "" {
		return
	}
	all, err := r.profiles()
	if err != nil {
		r.fail(err)
		return
	}
	found, ok := all[r.name]
	if !ok {
		names := slices.Sorted(maps.Keys(all))
		r.fail(Usage("%s: no profile %q", r.configFile(), r.name).Try("%s", cmp.Or(Nearest(r.name, names), strings.Join(names, ", "), "like "+profileExample)))
	}
	r.profile = found
}
