// Package house has the tests that read the source code and the pages: imports between packages,
// sizes, the exported API, prose, links, and whether commands and messages on pages exist.
// CONTRIBUTING.md lists them.
package house
