//go:build race

package ledger_test

// The race detector has little to find where there are no goroutines, and takes several times as
// long: make race runs all seeds without.
const defaultSeeds = 4
