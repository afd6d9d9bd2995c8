package deploy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const (
	serverType = "billing"
	auth       = "billing:s3cret"
)

// programs is where TestMain has put swctl, app and swexporter.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "deploy")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		programs = dir
		if err := build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// setting is the environment of a command of the files here.
type setting struct {
	zk, credentials, probes string
}

// set starts a server, writes the credentials as Kubernetes mounts them, and looks for a free port.
func set(t *testing.T) setting {
	t.Helper()
	s := setting{zk: zkdev.Start(t, zkdev.Config{}).Addr(), credentials: filepath.Join(t.TempDir(), "auth")}
	if err := os.WriteFile(s.credentials, []byte(auth+"\n"), 0o440); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.probes = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// runs starts a command of the files that runs an instance, waits until that is ready, and stops
// it.
func (s setting) runs(t *testing.T, command []string, id string) {
	t.Helper()
	s.serves(t, command, "/readyz", func(ctx context.Context) {
		if live := s.get(ctx, "/livez"); live != "200 ok" {
			t.Errorf("/livez: %s", live)
		}
		s.isListed(ctx, t, id)
	})
}

// serves starts a command of the files, waits until it answers "ok" at a path, checks it, and stops
// it as a supervisor does.
func (s setting) serves(t *testing.T, command []string, path string, check func(ctx context.Context)) {
	t.Helper()
	var log strings.Builder
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PATH="+programs, "SWCTL_ZK="+s.zk, "SWCTL_SERVER_TYPE="+serverType)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for answer := ""; answer != "200 ok"; {
		select {
		case err := <-ended:
			t.Fatalf("%q: %v", command, err)
		case <-ctx.Done():
			t.Fatalf("%q: not ready: %s", command, answer)
		case <-time.After(20 * time.Millisecond):
			answer = s.get(ctx, path)
		}
	}
	check(ctx)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%q after SIGTERM: %v", command, err)
	}
}

// get returns the status and the body, or the error.
func (s setting) get(ctx context.Context, path string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.probes+path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(body)))
}

// isListed verifies that the group has the instance, for those who have the credentials.
func (s setting) isListed(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	client, err := admin.Dial(ctx, admin.Config{Servers: s.zk, ServerType: serverType, Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	instances, err := client.Instances(ctx)
	if err != nil || len(instances) != 1 || instances[0].ID != id {
		t.Errorf("instances %+v, %v; want %s", instances, err, id)
	}
}
