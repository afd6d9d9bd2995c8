package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/swjobs/singleworker/singleworker/prom/group"
)

// Exit codes, as swctl's.
const (
	codeOK    = 0
	codeError = 1
	codeUsage = 2
)

// run serves until ctx is done, and returns the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) int {
	set, err := parse(args, getenv, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return codeOK
	case err != nil:
		return codeUsage
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if err := serve(ctx, set, log); err != nil {
		log.Error("swexporter ends", "err", err)
		return codeError
	}
	return codeOK
}

func serve(ctx context.Context, set settings, log *slog.Logger) error {
	collector, err := group.NewCollector(set.zk, set.options)
	if err != nil {
		return err
	}
	defer collector.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", set.listen)
	if err != nil {
		return err
	}
	handler := pages(registry, collector, log)
	if addr, ok := listener.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		handler = localOnly(handler)
	} else {
		log.Warn("anyone who reaches this address can read the names and states of jobs and instances", "listen", listener.Addr().String())
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: set.options.Timeout + 30*time.Second, MaxHeaderBytes: 16 << 10,
	}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		// The scrapes in progress are answered.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ending)
	})
	log.Info("listening", "url", "http://"+listener.Addr().String()+"/metrics", "group", set.zk.ServerType, "interval", set.options.Interval.String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// pages serves the metrics, and logs when readings begin to fail and when they succeed again.
func pages(registry *prometheus.Registry, collector *group.Collector, log *slog.Logger) http.Handler {
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 10})
	failing := newTurn(log)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(w, r)
		failing.is(collector.Err())
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n") // the client may be gone
	})
	return mux
}

// localOnly refuses requests for any host but this machine: a page of the web can have a name point
// at it, and read the answer.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if host != "localhost" && net.ParseIP(strings.Trim(host, "[]")) == nil {
			http.Error(w, "swexporter listens on the loopback interface: want localhost or an address as the host", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
