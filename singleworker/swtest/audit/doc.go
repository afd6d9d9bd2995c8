// Package audit checks evidence of runs against the library's guarantees: no tick runs twice, no
// two runs of a job overlap, and no tick is missing.
//
// The caller provides the evidence: records of handlers, a server's log, or a history. The package
// imports only the standard library, so it is independent of the library's view of which runs were
// due. Its functions keep no state and are safe for concurrent use.
package audit
