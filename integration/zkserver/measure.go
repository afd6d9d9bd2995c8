package zkserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Counters are a server's counts since it began, and at present.
type Counters struct {
	Received int64 // requests, with pings and with the question for these counters
	Events   int64 // sent to clients that watch
	Sent     int64 // bytes: answers, but for those to pings, which have 20 bytes each, and events
	Watches  int64 // that there are
	Nodes    int64 // that there are
}

// Counters asks the server for its counters, with its command mntr.
func (s *Server) Counters() (c Counters) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), startTimeout)
	defer cancel()
	answer, err := ask(ctx, s.addr, "mntr")
	all := make(map[string]int64)
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			all[name] = n
		}
	}
	for _, of := range []struct {
		sum   *int64
		names []string
	}{
		{&c.Received, []string{"zk_packets_received"}},
		{&c.Events, []string{
			"zk_sum_node_created_watch_count", "zk_sum_node_deleted_watch_count", "zk_sum_node_changed_watch_count", "zk_sum_node_children_watch_count",
		}},
		{&c.Sent, []string{"zk_response_bytes", "zk_watch_bytes"}},
		{&c.Watches, []string{"zk_watch_count"}},
		{&c.Nodes, []string{"zk_znode_count"}},
	} {
		for _, name := range of.names {
			n, ok := all[name]
			if !ok {
				s.tb.Fatalf("zkserver: %s is not in the answer to mntr (%d bytes): %v", name, len(answer), err)
			}
			*of.sum += n
		}
	}
	return c
}

// CPU returns how much processor time the running process has used.
func (s *Server) CPU() time.Duration {
	s.tb.Helper()
	d, err := CPU(s.process.group)
	if err != nil {
		s.tb.Fatalf("zkserver: %v", err)
	}
	return d
}

// clockTicks is how many units of /proc/PID/stat are a second: the same on every Linux of today.
const clockTicks = 100

// CPU returns how much processor time a process has used, with the processes that descend from it.
// Of those that have ended it counts those whose parents have waited for them. It may leave out one
// that ends meanwhile.
func CPU(pid int) (used time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Behind the name, which is in brackets, field 3 of proc(5) is the first. From field 14 on there
	// are user and system time of the process, and of those that it has waited for.
	const first, times = 14 - 3, 4
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for _, field := range fields[first : first+times] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		used += time.Duration(n) * time.Second / clockTicks
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // gone with its thread
		for text := range strings.FieldsSeq(string(children)) {
			child, err := strconv.Atoi(text)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", list, err)
			}
			n, _ := CPU(child) // none if it has ended meanwhile
			used += n
		}
	}
	return used, nil
}
