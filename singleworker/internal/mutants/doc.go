// Command mutants breaks the rules of the protocol, one at a time, and runs the tests that should
// notice. A mutant that lives means that a test is missing. It runs in the module's root:
//
//	go run ./singleworker/internal/mutants              # all
//	go run ./singleworker/internal/mutants -only lease  # those whose list, file or description matches
//
// It fails if a mutant lives that its list gives no reason for, if one is killed although its list
// gives a reason, or if one does not compile. The sources stay as they are: the go command's
// -overlay replaces the file that the mutant changes.
//
// A list, in lists/, has blocks that end with an empty line. A block may set, for the mutants below
// it, the file to change, and the commands that must notice, in the order in which they are run.
// Each is a package and flags of its test binary.
//
//	file internal/lease/own.go
//	tests internal/lease, internal/sim -test.run ^TestSimulation$
//
// Each other block is a mutant: its effect on the rule, and its change as a diff. The old text, of
// one or several lines, occurs once in the file; a line of it may be cut off at both ends. A line
// that begins with = says why no test can tell the difference.
//
//	> a lease is counted from now, not from before its heartbeat was sent
//	- sentAt.Elapsed+Length(m.session)
//	+ sentAt.Elapsed+m.session
package main
