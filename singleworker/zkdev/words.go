package zkdev

import (
	"fmt"
	"strings"
	"time"
)

// version is the reported version. Clients parse the number.
const version = "3.8.0-zkdev"

// notice is shown in every answer that describes the server.
func (k *core) notice() string {
	if k.disk != nil {
		return "a server for one machine: what it acknowledges is on that machine's disk, and nowhere else"
	}
	return "zkdev: a server for development and tests, never for production; it forgets everything"
}

// words are the four-letter commands, which a connection may send in place of its first frame's
// length.
var words = map[string]func(*core) string{
	"ruok": func(*core) string { return "imok" },
	"isrw": isrw,
	"srvr": srvr,
	"stat": stat,
	"mntr": mntr,
	"conf": conf,
	"envi": envi,
	"dump": dump,
	"cons": cons,
}

func (k *core) answerWord(c *conn, word string) {
	k.received++
	k.send(c, []byte(words[word](k)))
	k.hangUp(c, true)
}

// banner is the first line of srvr and stat, in the format that clients parse.
func banner() string {
	return "Zookeeper version: " + version + ", built on 01/01/2022 00:00 GMT\n"
}

func isrw(k *core) string {
	if k.readOnly {
		return "ro"
	}
	return "rw"
}

// mode is the one that a server of that kind reports.
func (k *core) mode() string {
	if k.readOnly {
		return "read-only"
	}
	return "standalone"
}

func srvr(k *core) string {
	return banner() + counters(k)
}

func counters(k *core) string {
	return fmt.Sprintf("Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\n"+
		"Zxid: 0x%x\nMode: %s\nNode count: %d\nNotice: %s\n",
		k.received, k.sent, len(k.conns), k.state.Zxid(), k.mode(), k.state.Nodes(), k.notice())
}

func stat(k *core) string {
	return banner() + "Clients:\n" + cons(k) + "\n" + counters(k)
}

func cons(k *core) string {
	var b strings.Builder
	for _, id := range sortedKeys(k.conns) {
		c := k.conns[id]
		fmt.Fprintf(&b, " /%s[%d](queued=%d,recved=0,sent=0,sid=0x%x)\n", c.nc.RemoteAddr(), 1, len(c.held.frames), c.session)
	}
	return b.String()
}

func mntr(k *core) string {
	var b strings.Builder
	for _, line := range []struct {
		key   string
		value any
	}{
		{"version", version + ", built on 01/01/2022 00:00 GMT"},
		{"server_state", k.mode()},
		{"notice", k.notice()},
		{"avg_latency", "0.0"},
		{"max_latency", 0},
		{"min_latency", 0},
		{"packets_received", k.received},
		{"packets_sent", k.sent},
		{"num_alive_connections", len(k.conns)},
		{"outstanding_requests", 0},
		{"uptime", time.Since(k.begun).Milliseconds()},
		{"znode_count", k.state.Nodes()},
		{"watch_count", k.state.Watches()},
		{"ephemerals_count", k.state.Ephemerals()},
		{"approximate_data_size", k.state.DataSize()},
		{"global_sessions", k.state.CountSessions()},
		{"local_sessions", 0},
	} {
		fmt.Fprintf(&b, "zk_%s\t%v\n", line.key, line.value)
	}
	return b.String()
}

func conf(k *core) string {
	return fmt.Sprintf("clientPortAddress=%s\ntickTime=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=0\nnotice=%s\n",
		k.config.Listen, k.config.Tick.Milliseconds(), k.config.MinSession.Milliseconds(), k.config.MaxSession.Milliseconds(), k.notice())
}

func envi(k *core) string {
	return "Environment:\nzookeeper.version=" + version + ", built on 01/01/2022 00:00 GMT\nnotice=" + k.notice() + "\n"
}

func dump(k *core) string {
	sessions := k.state.Sessions()
	var b strings.Builder
	fmt.Fprintf(&b, "SessionTracker dump:\nSessions (%d):\n", len(sessions))
	for _, session := range sessions {
		fmt.Fprintf(&b, "\t0x%x expires %s\n", session.ID, session.Expires.UTC().Format(time.DateTime))
	}
	fmt.Fprintf(&b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", countOwners(k))
	for _, session := range sessions {
		if len(session.Ephemerals) > 0 {
			fmt.Fprintf(&b, "0x%x:\n\t%s\n", session.ID, strings.Join(session.Ephemerals, "\n\t"))
		}
	}
	return b.String()
}

func countOwners(k *core) int {
	n := 0
	for _, session := range k.state.Sessions() {
		if len(session.Ephemerals) > 0 {
			n++
		}
	}
	return n
}
