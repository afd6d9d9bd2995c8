package admin

import (
	"context"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// How an instance went, as far as its last sign of life tells.
const (
	GoneStopped = "stopped" // it was stopped, and has handed over what it owned
	GoneClosed  = "closed"  // its session was closed, or its node deleted: its process ended
	GoneHung    = "hung"    // it was silent for much longer than its session lives without its process
	GoneEnded   = "ended"   // its session ended: it was killed, suspended or cut off
)

// GoneInstance is an instance that has left the group. One with the same ID may run again, and one
// whose session has ended may be back in another session.
type GoneInstance struct {
	ID          string    `json:"instance_id"`
	Incarnation string    `json:"incarnation"`
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	Version     string    `json:"version"` // the program's or, if it has none, the library's
	How         string    `json:"how"`     // GoneStopped ...
	At          time.Time `json:"gone_at"` // when that was noticed, on ZooKeeper's clock
	// LastSign is the last of its signs of life that another instance has read, and By is who has
	// noticed that it is gone. Of one that was stopped nothing is said of these.
	LastSign time.Time `json:"last_sign,omitzero"`
	By       string    `json:"noticed_by,omitempty"`
}

// Gone lists the instances that have left the group within the last day, at most 200, the last one
// first. Errors: ErrDenied, ErrUnavailable.
func (c *Client) Gone(ctx context.Context) ([]GoneInstance, error) {
	return retried(ctx, c.conn, "list instances that are gone", func() (gone []GoneInstance, err error) {
		now, err := c.groupTime(ctx)
		if err != nil {
			return nil, err
		}
		err = c.eachChild(ctx, c.tree.AllDeparted(), func(node child) {
			d, err := zkrec.ParseDeparted(node.data)
			if err == nil && node.err == nil && now.Sub(node.stat.Ctime) < zkrec.DepartedFor { // others are not worth an error
				gone = append(gone, goneOf(d, node.stat.Ctime))
			}
		})
		slices.SortFunc(gone, func(a, b GoneInstance) int { return b.At.Compare(a.At) })
		return gone[:min(len(gone), zkrec.MaxDeparted)], err
	})
}

// goneOf judges how an instance went. Its last sign of life may have come as long after the last
// one that was read as its signs were unread, and its session ends one to one and a half timeouts
// after it was last heard.
func goneOf(d zkrec.Departed, at time.Time) GoneInstance {
	g := GoneInstance{
		ID: d.SID, Incarnation: d.Incarnation, Host: d.Host, PID: d.PID, StartedAt: zkrec.UTC(d.StartedAt), Version: d.Version,
		How: GoneEnded, At: zkrec.UTC(at), LastSign: zkrec.Time(d.Last), By: d.By,
	}
	silent, session := at.Sub(g.LastSign), time.Duration(d.Session)
	switch {
	case d.Stopped:
		g.How = GoneStopped
	case d.Last == 0 || session == 0:
	case silent < session*9/10:
		g.How = GoneClosed
	case silent-time.Duration(d.Unread) > 2*session:
		g.How = GoneHung
	}
	return g
}
