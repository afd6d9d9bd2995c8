// Command check audits the record of a demonstration again: the directory kept by
// go run ./sample/demo --keep or KEEP=1 make demo.
//
//	go run ./sample/check /tmp/singleworker-demo.1234
//
// Package record describes records and the conclusions that they allow.
package main

import (
	"fmt"
	"os"

	"github.com/swjobs/singleworker/sample/record"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check DIR, a directory kept by sample/demo --keep")
		os.Exit(2)
	}
	verdict, err := record.Dir(os.Args[1]).Judge()
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
	fmt.Println(verdict)
	if !verdict.Pass {
		os.Exit(1)
	}
}
