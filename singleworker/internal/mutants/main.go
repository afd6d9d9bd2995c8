package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	only := flag.String("only", "", "a regular expression: run the mutants whose list, file or description it matches")
	parallel := flag.Int("j", 2, "how many mutants to run at a time")
	limit := flag.Duration("timeout", time.Minute, "of the tests of one package")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *parallel, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

func run(ctx context.Context, only string, parallel int, limit time.Duration) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	all, err := load()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool {
		return !pattern.MatchString(m.list) && !pattern.MatchString(m.file) && !pattern.MatchString(m.why)
	})
	if len(all) == 0 {
		return fmt.Errorf("no mutant matches %q", only)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := tester{dir: dir, limit: limit}
	if err := t.checkOriginal(ctx, all); err != nil {
		return err
	}
	return t.runAll(ctx, all, parallel)
}

// checkOriginal runs the tests without a mutant: a test that fails then kills nothing.
func (t tester) checkOriginal(ctx context.Context, all []mutant) error {
	var commands []string
	for _, m := range all {
		commands = append(commands, m.tests...)
	}
	slices.Sort(commands)
	if v := t.run(ctx, "", slices.Compact(commands)); v.outcome != survived {
		return fmt.Errorf("the tests fail without any mutant: %s", v.by)
	}
	return ctx.Err()
}

// runAll runs the mutants and prints a line for each, and the totals.
func (t tester) runAll(ctx context.Context, all []mutant, parallel int) error {
	started := time.Now()
	var mu sync.Mutex
	counts := make(map[outcome]int)
	bad := 0
	queue := make(chan int)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for i := range queue {
				began := time.Now()
				v := t.try(ctx, i, all[i])
				if ctx.Err() != nil {
					continue
				}
				mu.Lock()
				fmt.Printf("%-10s %-28s %5.1fs  %-50s %s\n", v.outcome, v.place, time.Since(began).Seconds(), v.by, all[i].why) //nolint:forbidigo // a program
				counts[v.outcome]++
				if !v.outcome.isExpected(all[i]) {
					bad++
				}
				mu.Unlock()
			}
		})
	}
	for i := range all {
		queue <- i
	}
	close(queue)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Printf("%d mutants: %d killed, %d of them by the time limit; %d equivalent, with a reason; %d lived; %d did not compile; %s\n", //nolint:forbidigo // a program
		len(all), counts[killed]+counts[hung], counts[hung], counts[equivalent], counts[survived], counts[broken],
		time.Since(started).Round(time.Second))
	if bad > 0 {
		return fmt.Errorf("%d mutants are not as they should be", bad)
	}
	return nil
}

// place is where a mutant is, for people.
func (m mutant) place(line int) string {
	return fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(m.file)), strings.TrimSuffix(path.Base(m.file), ".go"), line)
}
