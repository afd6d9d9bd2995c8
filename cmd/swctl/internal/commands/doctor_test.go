package commands

import (
	"strings"
	"syscall"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestDoctorGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.servers = []admin.Server{
		{Address: "zk1:2181", State: admin.ServerServing, Mode: "leader", Connections: 7},
		{Address: "zk2:2181", State: admin.ServerAway, Err: syscall.ECONNREFUSED},
	}
	texts := []string{h.transcript("doctor"), h.transcript("doctor", "-o", "json"), h.transcript("doctor", "nightly")}
	h.fake.fail["Dial"] = &admin.ServersError{Servers: []admin.Server{
		{Address: "zk1:2181", State: admin.ServerWaiting}, {Address: "zk2:2181", State: admin.ServerAway, Err: syscall.ECONNREFUSED},
	}}
	texts = append(texts, h.transcript("doctor"), h.transcript("list"))
	golden(t, "doctor", strings.Join(texts, "\n"))
}

// A group in which nothing is wrong is exit code 0, and one that does not exist is not well.
func TestDoctorExits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fake.jobs = map[string]admin.JobStatus{"nightly": h.fake.jobs["nightly"]}
	for k := range h.fake.instances {
		h.fake.instances[k].ClockOffset = nil
	}
	if code := h.exec("doctor"); code != cmdline.ExitOK {
		t.Errorf("exit %d: %s%s", code, h.out.String(), h.errs.String())
	}
	h.fake.jobs, h.fake.instances = nil, nil
	if code := h.exec("doctor", "--server-type", "biling"); code != cmdline.ExitNotFound || h.out.Len() > 0 {
		t.Errorf("a group that does not exist: exit %d: %s%s", code, h.out.String(), h.errs.String())
	}
}
