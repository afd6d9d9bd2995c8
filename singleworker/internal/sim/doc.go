// Package sim is the simulation of whole groups: TestSimulation runs instances with the
// production code on a zkdev server, in virtual time, under random faults, and a checker
// verifies what the server's transaction log and the recorded runs say. It has nothing but
// tests.
package sim
