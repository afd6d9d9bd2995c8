package zkserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTicks is how many units of /proc/PID/stat are a second: the same on every Linux of today.
const clockTicks = 100

// Count returns one of the numbers that the server's command mntr lists, such as zk_packets_received, which
// includes the command.
func (s *Server) Count(key string) int64 {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), startTimeout)
	defer cancel()
	answer, err := ask(ctx, s.addr, "mntr")
	for line := range strings.Lines(answer) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == key {
			var n int64
			if n, err = strconv.ParseInt(value, 10, 64); err == nil {
				return n
			}
		}
	}
	s.tb.Fatalf("zkserver: count %s: not in the answer to mntr (%d bytes): %v", key, len(answer), err)
	return 0
}

// CPU returns how much processor time the running process has used.
func (s *Server) CPU() time.Duration {
	s.tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.group))
	if err != nil {
		s.tb.Fatalf("zkserver: %v", err)
	}
	// Behind the name, which is in brackets, field 3 of proc(5) is the first; 14 and 15 are user and system time.
	const user, system = 14 - 3, 15 - 3
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, field := range []int{user, system} {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			s.tb.Fatalf("zkserver: /proc/%d/stat: %v", s.process.group, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks
}
