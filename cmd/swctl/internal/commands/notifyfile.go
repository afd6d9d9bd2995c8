package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/notify"
)

const flagConfig = "config"

// notifyFile is the file of swctl notify.
type notifyFile struct {
	Targets map[string]notifyTarget `json:"targets"`
	Rules   []struct {
		Jobs  string        `json:"jobs"`
		On    []notify.Kind `json:"on"`
		To    []string      `json:"to"`
		After int           `json:"after"`
	} `json:"rules"`
	Pings []struct {
		URLFile string `json:"url_file"`
		Job     string `json:"job"`
	} `json:"pings"`
	Gather string `json:"gather"`
	Every  string `json:"every"`
}

type notifyTarget struct {
	Type         string   `json:"type"`
	URLFile      string   `json:"url_file"`
	KeyFile      string   `json:"key_file"`
	Server       string   `json:"server"`
	User         string   `json:"user"`
	PasswordFile string   `json:"password_file"`
	From         string   `json:"from"`
	To           []string `json:"to"`
}

// readNotifyFile reads the file and those that it names. Its content is checked by notify.New.
func readNotifyFile(path string) (cfg notify.Config, err error) {
	text, err := group.ReadSecret(flagConfig, path)
	if err != nil {
		return cfg, err
	}
	wrong := func(err error) (notify.Config, error) {
		return notify.Config{}, cmdline.Usage("--%s %s: %w", flagConfig, path, err).Try("swctl help notify describes the file")
	}
	var file notifyFile
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return wrong(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return wrong(errors.New("there is more after the document"))
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"gather", file.Gather, &cfg.Gather}, {"every", file.Every, &cfg.Every}} {
		if d.text == "" {
			continue
		}
		if *d.to, err = job.ParseDuration(d.text); err != nil {
			return wrong(fmt.Errorf("%s %q: want a duration such as 90s", d.name, d.text))
		}
	}
	for _, r := range file.Rules {
		cfg.Rules = append(cfg.Rules, notify.Rule{Jobs: r.Jobs, On: r.On, To: r.To, After: r.After})
	}
	for _, p := range file.Pings {
		url, err := readBeside(path, p.URLFile)
		if err != nil {
			return cfg, err
		}
		cfg.Pings = append(cfg.Pings, notify.Ping{URL: url, Job: p.Job})
	}
	cfg.Targets = make(map[string]notify.Sender)
	for name, target := range file.Targets {
		sender, err := target.sender(path)
		if usage := (*cmdline.HintError)(nil); err != nil && !errors.As(err, &usage) {
			return wrong(fmt.Errorf("target %q: %w", name, err))
		}
		if err != nil {
			return cfg, err
		}
		cfg.Targets[name] = sender
	}
	return cfg, nil
}

// readBeside reads a secret, whose path is relative to the file that names it.
func readBeside(file, path string) (notify.Secret, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	text, err := group.ReadSecret(flagConfig, path)
	return notify.Secret(text), err
}

// sender reads the secrets of a target that file describes.
func (t notifyTarget) sender(file string) (notify.Sender, error) {
	secrets := make(map[string]notify.Secret)
	for _, path := range []string{t.URLFile, t.KeyFile, t.PasswordFile} {
		if path == "" {
			continue
		}
		secret, err := readBeside(file, path)
		if err != nil {
			return nil, err
		}
		secrets[path] = secret
	}
	url, key := secrets[t.URLFile], secrets[t.KeyFile]
	switch t.Type {
	case "webhook":
		return &notify.Webhook{URL: url, Key: key}, nil
	case "slack":
		return &notify.Slack{URL: url}, nil
	case "dingtalk":
		return &notify.DingTalk{URL: url, Key: key}, nil
	case "wecom":
		return &notify.WeCom{URL: url}, nil
	case "mail":
		return &notify.Mail{Server: t.Server, User: t.User, Password: secrets[t.PasswordFile], From: t.From, To: t.To}, nil
	}
	return nil, fmt.Errorf("type %q: want webhook, slack, dingtalk, wecom or mail", t.Type)
}
