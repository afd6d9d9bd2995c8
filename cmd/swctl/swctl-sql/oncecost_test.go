package main

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// BenchmarkOnce measures a transaction of one insert with package once and without it.
func BenchmarkOnce(b *testing.B) {
	for name, g := range targets(b) {
		if g.refuses {
			continue
		}
		b.Run(name, func(b *testing.B) {
			g := g.open(b)
			if g.d == once.Postgres { // whose server is started without
				g.exec(b, "ALTER SYSTEM SET fsync=on")
				g.exec(b, "SELECT pg_reload_conf()")
			}
			slot := g.newSlot(b)
			took := make(map[string][]time.Duration)
			token := int64(0)
			for b.Loop() {
				token++
				run := runOf(slot, token, token, "run")
				for name, do := range map[string]doer{"with": right, "without": func(ctx context.Context, g target, _ *singleworker.Run, f func(*sql.Tx) error) error {
					return inTransaction(ctx, g, f)
				}} {
					start := time.Now()
					err := do(b.Context(), g, run, func(tx *sql.Tx) error {
						_, err := tx.ExecContext(b.Context(), g.bound("INSERT INTO effects (slot, n, tick_ms, token) VALUES (?,?,?,?)"), slot, 1, token, token)
						return err
					})
					if err != nil {
						b.Fatal(err)
					}
					took[name] = append(took[name], time.Since(start))
				}
			}
			for name, all := range took {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds()), name+"-p50-µs")
			}
		})
	}
}
