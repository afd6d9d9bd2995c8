package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// ServerState is how a ZooKeeper server stands.
type ServerState string

// The states of a server.
const (
	ServerServing ServerState = "serving"     // it says that it serves requests
	ServerWaiting ServerState = "not_serving" // it says that it does not: it has no quorum, or is starting
	ServerMute    ServerState = "mute"        // it accepts connections, and does not say how it stands
	ServerAway    ServerState = "away"        // it does not accept connections
)

// Server is a ZooKeeper server by its answer to the command srvr. Servers from 3.5 on give it,
// unless their 4lw.commands.whitelist forbids that.
type Server struct {
	Address string
	State   ServerState
	Err     error // why it is ServerAway, or the TLS handshake with one that is ServerMute fails

	// The rest is known of a server that serves requests.

	Mode        string // "leader", "follower", "observer", "standalone", or modeReadOnly
	Version     string
	Connections int
	Outstanding int           // requests that it has not answered yet
	Latency     time.Duration // of the requests since it started, on average
	MaxLatency  time.Duration // the longest
}

// modeReadOnly is the Mode of a ServerWaiting that serves its old data, to clients that allow it.
const modeReadOnly = "read-only"

// askFor is how long a server may take to answer.
const askFor = 2 * time.Second

// Servers asks each server how it stands, all at the same time, which takes two seconds at most. It
// needs no session.
func (c *Client) Servers(ctx context.Context) []Server { return askServers(ctx, c.conn, c.servers) }

func askServers(ctx context.Context, conn *zkconn.Conn, addresses []string) []Server {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	all := make([]Server, len(addresses))
	var asked sync.WaitGroup
	for k, address := range addresses {
		asked.Go(func() {
			answer, err := conn.Ask(ctx, address, "srvr")
			all[k] = serverOf(address, answer, err)
		})
	}
	asked.Wait()
	return all
}

// serverOf reads a server's answer.
func serverOf(address, answer string, err error) Server {
	s := Server{Address: address, State: ServerMute, Err: err}
	switch {
	case err != nil && !errors.Is(err, zkconn.ErrTLS):
		s.State = ServerAway
	case strings.Contains(answer, "not currently serving requests"):
		s.State = ServerWaiting
	}
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Mode":
			s.Mode, s.State = value, ServerServing
			if value == modeReadOnly {
				s.State = ServerWaiting
			}
		case "Zookeeper version":
			s.Version, _, _ = strings.Cut(value, ",")
		case "Latency min/avg/max":
			var least, average, longest float64
			if n, _ := fmt.Sscanf(value, "%f/%f/%f", &least, &average, &longest); n == 3 {
				s.Latency, s.MaxLatency = milliseconds(average), milliseconds(longest)
			}
		case "Connections":
			_, _ = fmt.Sscan(value, &s.Connections)
		case "Outstanding":
			_, _ = fmt.Sscan(value, &s.Outstanding)
		}
	}
	return s
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// String is "zk1:2181 serves requests (leader)", for example.
func (s Server) String() string {
	reason := new(net.OpError)
	switch {
	case s.State == ServerServing:
		return fmt.Sprintf("%s serves requests (%s)", s.Address, s.Mode)
	case s.Mode == modeReadOnly:
		return s.Address + " is read-only, because it has lost its quorum"
	case s.State == ServerWaiting:
		return s.Address + " is up, and says that it serves no requests"
	case s.State == ServerMute && s.Err != nil:
		return fmt.Sprintf("%s accepts connections, and no %v", s.Address, s.Err)
	case s.State == ServerMute:
		return s.Address + " accepts connections, and does not say how it stands"
	case errors.As(s.Err, &reason) && reason.Err != nil: // without the address once more
		return fmt.Sprintf("%s accepts no connections: %v", s.Address, reason.Err)
	}
	return fmt.Sprintf("%s accepts no connections: %v", s.Address, s.Err)
}

// readsWell reports whether the server serves its old data, and keeps it. Before ZooKeeper 3.7, a
// read-only server ends sessions by itself, so that instances vanish there one by one.
func (s Server) readsWell() bool {
	var major, minor int
	_, err := fmt.Sscanf(s.Version, "%d.%d", &major, &minor)
	return s.Mode == modeReadOnly && err == nil && (major > 3 || major == 3 && minor >= 7)
}

// ServersError says how each server stands, when none has begun a session. It is an ErrUnavailable.
type ServersError struct{ Servers []Server }

// Any reports whether a server stands like that.
func (e *ServersError) Any(state ServerState) bool {
	return slices.ContainsFunc(e.Servers, func(s Server) bool { return s.State == state })
}

func (e *ServersError) Error() string {
	texts := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		texts[i] = s.String()
	}
	return e.Head() + ": " + strings.Join(texts, "; ")
}

// Head is the error without the servers.
func (e *ServersError) Head() string {
	if e.Any(ServerWaiting) && !e.Any(ServerServing) {
		return "ZooKeeper has no quorum"
	}
	return ErrUnavailable.Error()
}

// Remedy says what to do.
func (e *ServersError) Remedy() string {
	switch {
	case e.Any(ServerServing):
		return "look at the log of a server that serves requests: it may have too many connections from here (maxClientCnxns)"
	case e.Any(ServerWaiting):
		return "start the servers that are away, until more than half of the ensemble are up; those that are up may still be starting"
	case e.Any(ServerMute):
		return "look at the logs of the servers: " + strings.ReplaceAll(zkconn.WhyHungUp, "the server", "one")
	}
	return "start ZooKeeper, or correct the address"
}

// Is reports whether the target is ErrUnavailable.
func (e *ServersError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap lists why servers are away.
func (e *ServersError) Unwrap() (all []error) {
	for _, s := range e.Servers {
		if s.Err != nil {
			all = append(all, s.Err)
		}
	}
	return all
}
