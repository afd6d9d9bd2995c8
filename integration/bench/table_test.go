package bench

import (
	"slices"
	"strings"
	"testing"
)

// The output of package compare stands beside the measurements here, and goals may depend on it.
func TestCost(t *testing.T) {
	r := new(results)
	if err := r.read(strings.NewReader("a table\n" +
		"BenchmarkEach/singleworker 1 130 us/run 20 p99-ms\nBenchmarkEach/singleworker 1 150 us/run\nBenchmarkEach/singleworker 1 100 us/run\n" +
		"BenchmarkEach/river 1 160.5 us/run\nBenchmarkRest/10000x6 1 616 log-KB/s 610 log-KB/s:alive/* 1 log-KB/s:tick\n" +
		"BenchmarkTicks/1000x6 1 30.5 p99-ms\nBenchmarkTicks/gocron/1000x1 1 16 p99-ms\nBenchmarkClaims/10000x1 1 500 claims/s 1000 bare-claims/s\n")); err != nil {
		t.Fatal(err)
	}
	late := newLine("Stop", size{10000, 6}).add(0.1, "s")
	late.remarkf("not balanced within 1m")
	r.keep(late)
	for _, test := range []struct {
		line, unit string
		want       string
	}{
		{"Each/singleworker", "us/run", "130|at most 128: missed|River 160"},
		{"Rest", logged, "616|at most 25: missed|; 610||; 1||"},
		{"Ticks", "p99-ms", "30.5|at most 31: met|bare gocron 16"},
		{"Claims", "claims/s", "500|at least 400: met|the same transactions alone 1000"},
		{"Kill", "s-since-heard", ""},
		{"Stop", "s", "0.10|not balanced within 1m|"},
	} {
		k := slices.IndexFunc(costs, func(c cost) bool { return c.line == test.line && c.unit == test.unit })
		var rows []string
		for _, row := range r.cost(costs[k], costs[k].at[0]) {
			rows = append(rows, strings.Join(row[2:], "|"))
		}
		if got := strings.Join(rows, "; "); got != test.want {
			t.Errorf("%s: %q, want %q", test.line, got, test.want)
		}
	}
	if err := r.read(strings.NewReader("BenchmarkRest/1x1 1 3 s 4\n")); err == nil {
		t.Error("a value without a unit was read")
	}
}
