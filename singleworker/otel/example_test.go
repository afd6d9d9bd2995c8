package otel_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/swjobs/singleworker/singleworker"
	swotel "github.com/swjobs/singleworker/singleworker/otel"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Each run is a span, with the job, the tick and the fencing token as its attributes.
func ExampleMiddleware() {
	server, err := zkdev.New(zkdev.Config{}) // a program has ZooKeeper
	check(err)
	check(server.Start())
	defer server.Stop()
	spans := tracetest.NewInMemoryExporter() // and an exporter that sends them somewhere
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	cfg := singleworker.Config{Servers: server.Addr(), ServerType: "billing", InstanceID: "app-1"}
	cfg.Middleware = swotel.Middleware(swotel.Options{ServerType: cfg.ServerType, TracerProvider: provider})
	m, err := singleworker.New(cfg)
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	check(m.Handle("report", func(context.Context, *singleworker.Run) error {
		cancel()
		return nil
	}))
	check(m.Schedule(singleworker.Job{Name: "report", Schedule: "@every 1s"}))
	check(m.Run(ctx))

	span := spans.GetSpans()[0]
	fmt.Println(span.Name)
	for _, of := range span.Attributes {
		switch of.Key {
		case "singleworker.job.name", "singleworker.instance.id", "singleworker.run.attempt":
			fmt.Println(of.Key, of.Value.String())
		}
	}
	// Output:
	// run report
	// singleworker.job.name report
	// singleworker.run.attempt 1
	// singleworker.instance.id app-1
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
