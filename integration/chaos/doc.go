// Package chaos tests groups of real processes on an ensemble of three real ZooKeeper servers, or
// on one swctl serve, under faults that are drawn from a seed: processes are killed and suspended,
// networks fail in one or both directions or slow down, servers die one by one or all at once, or
// come back with older data or with none, clocks of one or of all leap, and operators drain,
// deploy, divide, cancel and submit.
//
// Nothing that the library says of itself is evidence. Each process writes a [Line] to its own file
// when a handler begins and when it ends, and ZooKeeper's transaction log says in one order which
// ticks were claimed, by whom, and how each of them ended. The checker compares the two; all times
// that it compares are by the machine's monotonic clock. When the servers' data was replaced, the
// former data is kept: it says which claims were lost. Runs may rest on them for a lease, and the
// ticks that they were for may run again.
//
// make chaos runs it, draws a page of the run, and prints a table of figures.
package chaos
