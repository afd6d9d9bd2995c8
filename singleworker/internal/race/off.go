//go:build !race

package race

// Factor is what a test divides the number of its scenarios by: 10 with the race detector, else 1.
const Factor = 1
