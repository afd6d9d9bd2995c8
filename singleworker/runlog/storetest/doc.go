// Package storetest tests runlog.Stores: what each of them promises, and that a log is complete and
// has nothing twice however often its reader is killed.
package storetest
