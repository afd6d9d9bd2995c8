package admin

import "github.com/swjobs/singleworker/singleworker/internal/listing"

// The parts of a Client are values, each with those that it is made of. None of them knows the
// Client, which checks its arguments, has a part do the work, and names the call in the error.

// members reads who is in the group, with their orders and the slots that they own, and tells the
// group's time by their signs of life.
type members struct {
	reader

	clock *clock
}

// observer reads jobs and the fate of their ticks, and judges both by the group's time.
type observer struct{ members }

// editor creates, changes and cancels jobs, and asks their owners to start runs and to stop them.
type editor struct {
	observer
	writer

	room *listing.Room
}
