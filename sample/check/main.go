// Command check judges the record of a demonstration once more: the directory that
// go run ./sample/demo --keep, or KEEP=1 make demo, has left.
//
//	go run ./sample/check /tmp/singleworker-demo.1234
//
// What a record is, and what it proves, is in package record.
package main

import (
	"fmt"
	"os"

	"github.com/swjobs/singleworker/sample/record"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check DIR, a directory that sample/demo --keep has left")
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
