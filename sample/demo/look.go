package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/sample/record"
)

// note writes an event into the record.
func (d *demo) note(words ...string) {
	if err := d.record.Event(words...); err != nil && d.err == nil {
		d.err = err
	}
}

// show runs a command of swctl before the reader's eyes.
func (d *demo) show(ctx context.Context, args ...string) error {
	d.commandf("%s", commandLine(args))
	out, err := d.Swctl(ctx, args...)
	d.indent(out)
	return err
}

func (d *demo) owners(ctx context.Context) (record.Owners, error) {
	list, err := d.Swctl(ctx, "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	return record.ParseOwners([]byte(list))
}

// snapshot is owners, and keeps them in the record.
func (d *demo) snapshot(ctx context.Context, when string) (record.Owners, error) {
	list, err := d.Swctl(ctx, "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	if err := d.record.SaveOwners(when, []byte(list)); err != nil {
		return nil, err
	}
	return record.ParseOwners([]byte(list))
}

func (d *demo) runningInstances(ctx context.Context) (int, error) {
	text, err := d.Swctl(ctx, "instances", "-o", "json")
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct{} `json:"items"`
	}
	err = json.Unmarshal([]byte(text), &list)
	return len(list.Items), err
}

// await looks again until there is no error, or an instance has ended that should not.
func (d *demo) await(ctx context.Context, patience time.Duration, what string, look func() error) error {
	const pause = 100 * time.Millisecond
	for deadline := time.Now().Add(patience); ; {
		err := look()
		switch ended := d.endedByItself(); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return nil
		case ended != "":
			return fmt.Errorf("%s has ended by itself: its log is above", ended)
		case time.Now().After(deadline):
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// defaultTick is ZooKeeper's, for servers that do not tell theirs.
const defaultTick = 2 * time.Second

// serverTick is how late the server may notice that a session is over. Servers tell it
// whose 4lw.commands.whitelist has conf.
func serverTick(ctx context.Context, servers string) time.Duration {
	const patience = 2 * time.Second
	first, _, _ := strings.Cut(servers, "/")
	first, _, _ = strings.Cut(first, ",")
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", first)
	if err != nil {
		return defaultTick
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return defaultTick
	}
	if _, err := io.WriteString(conn, "conf"); err != nil {
		return defaultTick
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		text, found := strings.CutPrefix(lines.Text(), "tickTime=")
		if ms, err := strconv.Atoi(text); found && err == nil {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return defaultTick
}
