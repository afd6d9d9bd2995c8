// Package storetest tests runlog.Stores: each one's promises, and that a log is complete and has
// nothing twice however often its reader is killed.
package storetest
