package main

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
)

// pings counts the pings that are sent on connections.
type pings struct{ atomic.Int64 }

func (p *process) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &counted{conn, &p.pings}, nil
}

type counted struct {
	net.Conn

	pings *pings
}

// ping is a whole request: length 8, xid -2, type 11.
var ping = []byte("\x00\x00\x00\x08\xff\xff\xff\xfe\x00\x00\x00\x0b")

func (c *counted) Write(b []byte) (int, error) {
	c.pings.Add(int64(bytes.Count(b, ping)))
	return c.Conn.Write(b)
}
