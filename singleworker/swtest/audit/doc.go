// Package audit checks evidence of what ran for the promises of the library: no tick runs twice, no two
// runs of a job overlap, and no tick is missing.
//
// The evidence comes from the caller: what handlers wrote down, a server's log, or a history. The package
// imports nothing but the standard library and so learns from nobody what was due. Its functions keep
// no state and are safe for concurrent use.
package audit
