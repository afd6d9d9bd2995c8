package election

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Participant is one contender in the queue of an election.
type Participant struct {
	ID    string
	Node  string // path
	Token int64  // of the term that it leads or will lead
}

// Participants reads the queue of an election in order, the leader first, as far as the connected
// server knows.
func Participants(ctx context.Context, conn Conn, path string) ([]Participant, error) {
	names, _, err := conn.Children(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Participant
	for _, name := range inOrder(names) {
		data, stat, err := conn.Get(ctx, path+"/"+name)
		if errors.Is(err, zkconn.ErrNoNode) {
			continue // it has left since
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Participant{ID: string(data), Node: path + "/" + name, Token: stat.Czxid})
	}
	return list, nil
}
