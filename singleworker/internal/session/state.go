package session

// State is the state of the session with ZooKeeper.
type State string

// The states of the session, and the names of changes to them.
const (
	Connecting  State = "connecting"  // there was no session yet
	Connected   State = "connected"   // in a new session
	Suspended   State = "suspended"   // the connection is lost; the session may live
	Reconnected State = "reconnected" // connected again, in the same session
	Expired     State = "expired"     // the session is over; the next one is being opened
)
