package main

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/storetest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// How long after its end a run is in the log, while 500 end each second: from the instance's clock
// to the end of the store's transaction.
func BenchmarkLag(b *testing.B) {
	for name, address := range databases(b) {
		b.Run(name, func(b *testing.B) {
			server, err := zkdev.New(zkdev.Config{Listen: "127.0.0.1:0"})
			if err != nil {
				b.Fatal(err)
			}
			if err := server.Start(); err != nil {
				b.Fatal(err)
			}
			defer server.Stop()
			w := storetest.NewWriter(b, server.Addr(), "lag", jobs)
			client, err := admin.Dial(b.Context(), admin.Config{Servers: server.Addr(), ServerType: "lag"})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			store := opener(b, address)()
			defer store.Close()
			ctx, stop := context.WithCancel(b.Context())
			lags, ended := make([]time.Duration, 0, jobs*b.N), make(chan error, 1)
			go func() {
				ended <- runlog.Run(ctx, client, store, runlog.Options{Group: "lag-" + strconv.Itoa(b.N), OnAppended: func(entries []runlog.Entry) {
					for _, e := range entries {
						lags = append(lags, time.Since(e.Ended))
					}
					if len(lags) >= jobs*b.N {
						stop()
					}
				}})
			}()
			for range b.N { // seconds
				for i := range inPieces {
					if err := w.Write(b.Context(), i*jobs/inPieces, (i+1)*jobs/inPieces); err != nil {
						b.Fatal(err)
					}
					time.Sleep(time.Second / inPieces)
				}
			}
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
			slices.Sort(lags)
			b.ReportMetric(float64(lags[len(lags)/2].Milliseconds()), "p50-lag-ms")
			b.ReportMetric(float64(lags[len(lags)*99/100].Milliseconds()), "p99-lag-ms")
			b.ReportMetric(float64(lags[len(lags)-1].Milliseconds()), "max-lag-ms")
			b.ReportMetric(float64(len(lags)), "runs")
		})
	}
}
