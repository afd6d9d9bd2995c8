//go:build !race

package ledger_test

const defaultSeeds = aMillion
