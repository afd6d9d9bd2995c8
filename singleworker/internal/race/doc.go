// Package race tells tests whether the race detector is on, as the standard library's internal/race
// does. Code is 5 to 20 times as slow with it, and what it finds shows in the first of many random
// scenarios; so a test that has many divides their number by [Factor]. make race runs such packages
// once more without it, with all of them.
package race
