package zkconn

import (
	"context"
	"io"
	"slices"
)

// maxAnswer is longer than any answer to a word that is asked here.
const maxAnswer = 64 << 10

// Addresses lists the servers.
func (c *Conn) Addresses() []string { return slices.Clone(c.names) }

// Ask sends a four-letter word, such as "srvr", to a server. It needs no session: it opens a
// connection, and closes it. The answer is empty if the server hangs up without one, or has not
// answered when ctx ends. An error says that the server did not accept the connection, or is an
// ErrTLS.
func (c *Conn) Ask(ctx context.Context, address, word string) (string, error) {
	conn, err := c.connect(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	closed := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if closed() {
			_ = conn.Close()
		}
	}()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", nil // it has hung up
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, maxAnswer)) // up to its hanging up
	return string(answer), nil
}
