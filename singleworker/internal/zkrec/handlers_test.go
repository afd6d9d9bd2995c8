package zkrec_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestHandlersAreNamedByTheirContent(t *testing.T) {
	t.Parallel()
	hash, data, ok := zkrec.EncodeHandlers([]string{"stats", "daily", "stats"}, nil)
	again, _, _ := zkrec.EncodeHandlers([]string{"daily", "stats"}, nil)
	if !ok || hash != "4f2eb64a9ea7775d" || again != hash || string(data) != "daily\nstats" {
		t.Errorf("hash %q, %q; data %q, %v", hash, again, data, ok)
	}
	if names, err := zkrec.ParseHandlers(hash, data); err != nil || !slices.Equal(names, []string{"daily", "stats"}) {
		t.Errorf("read %q, %v", names, err)
	}
	for _, edited := range []string{"", "daily", "daily\nstats\n", strings.Repeat("x", zkrec.MaxHandlersBytes+1)} {
		if names, err := zkrec.ParseHandlers(hash, []byte(edited)); err == nil {
			t.Errorf("data of another hash is read as %q", names)
		}
	}
	none, data, ok := zkrec.EncodeHandlers(nil, nil)
	if names, err := zkrec.ParseHandlers(none, data); !ok || err != nil || len(names) > 0 {
		t.Errorf("no handlers are read as %q, %v", names, err)
	}
}

func TestTooManyHandlersAreNotPublished(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range zkrec.MaxHandlersBytes / 8 { // with the newlines, one byte less
		names = append(names, fmt.Sprintf("h%06d", i))
	}
	if _, data, ok := zkrec.EncodeHandlers(names, nil); !ok || len(data) != zkrec.MaxHandlersBytes-1 {
		t.Errorf("%d bytes: %v", len(data), ok)
	}
	names[0] += "xx"
	if _, _, ok := zkrec.EncodeHandlers(names, nil); ok {
		t.Error("a list that is too long is to be published")
	}
}

// The jobs that a program declares stand before its handlers, in lines that older readers take for
// handlers of no job.
func TestDeclaredJobsAreListedWithTheHandlers(t *testing.T) {
	t.Parallel()
	hash, data, ok := zkrec.EncodeHandlers([]string{"stats", "daily"}, map[string]string{"report": "", "audit": "0f1e"})
	if !ok || string(data) != "\t\n\t\taudit\t0f1e\n\taudit\n\treport\ndaily\nstats" {
		t.Errorf("data %q, %v", data, ok)
	}
	if names, err := zkrec.ParseHandlers(hash, data); err != nil || !slices.Equal(names, []string{"daily", "stats"}) {
		t.Errorf("handlers %q, %v", names, err)
	}
	if jobs, known := zkrec.ParseDeclared(hash, data); !known || !maps.Equal(jobs, map[string]string{"audit": "0f1e", "report": ""}) {
		t.Errorf("declared %q, known: %v", jobs, known)
	}
	long := strings.Repeat("x", zkrec.MaxHandlersBytes/2)
	if hash, data, _ := zkrec.EncodeHandlers([]string{"daily"}, map[string]string{long: "0f1e"}); len(data) > zkrec.MaxHandlersBytes {
		t.Errorf("%d bytes", len(data))
	} else if jobs, known := zkrec.ParseDeclared(hash, data); !known || !maps.Equal(jobs, map[string]string{long: ""}) {
		t.Errorf("no room for fingerprints: %d jobs, known: %v", len(jobs), known)
	}
	for what, test := range map[string]struct {
		jobs  map[string]string
		known bool
	}{
		"none":         {map[string]string{}, true},
		"not told":     {nil, false},
		"no room left": {map[string]string{strings.Repeat("x", zkrec.MaxHandlersBytes): ""}, false},
	} {
		hash, data, ok := zkrec.EncodeHandlers([]string{"daily"}, test.jobs)
		names, err := zkrec.ParseHandlers(hash, data)
		jobs, known := zkrec.ParseDeclared(hash, data)
		if !ok || err != nil || !slices.Equal(names, []string{"daily"}) || len(jobs) > 0 || known != test.known {
			t.Errorf("%s: handlers %q, %v; declared %q, known: %v", what, names, err, jobs, known)
		}
	}
	if jobs, known := zkrec.ParseDeclared("0123", data); known {
		t.Errorf("of another hash: %q", jobs)
	}
}
