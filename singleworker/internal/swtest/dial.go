package swtest

import (
	"context"
	"errors"
	"net"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
)

var errKilled = errors.New("swtest: the instance was killed")

// dial connects the instance to the server, by its own place on the network.
func (i *Instance) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if i.State() == Killed {
		return nil, errKilled
	}
	dial := func() (net.Conn, error) { return i.Client.Dial(ctx, network, address) }
	if i.setup.Dial != nil {
		dial = func() (net.Conn, error) { return i.setup.Dial(ctx, i.Client) }
	}
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	return i.stall.Conn(roomtest.Settle(conn)), nil
}
