package zkrec_test

import (
	"bytes"
	"compress/gzip"
	random "crypto/rand"
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

// Tens of thousands of handlers are published, compressed when the list is long, under the hash of
// the list as it is.
func TestManyHandlersArePublished(t *testing.T) {
	t.Parallel()
	for _, n := range []int{zkrec.MaxHandlersBytes / 8, zkrec.MaxHandlersBytes/8 + 1, 100_000} {
		var names []string
		for i := range n { // with the newlines, one byte less
			names = append(names, fmt.Sprintf("h%06d", i))
		}
		hash, data, ok := zkrec.EncodeHandlers(names, nil)
		if !ok || len(data) > zkrec.MaxHandlersBytes {
			t.Errorf("%d handlers: %d bytes, published: %v", n, len(data), ok)
		}
		if plain := data[0] == 'h'; plain != (8*n <= zkrec.MaxHandlersBytes) {
			t.Errorf("%d handlers begin with %q", n, data[:2])
		}
		if read, err := zkrec.ParseHandlers(hash, data); err != nil || !slices.Equal(read, names) {
			t.Errorf("%d handlers are read as %d, %v", n, len(read), err)
		}
		text := []byte(strings.Join(names, "\n"))
		if len(text) > zkrec.MaxHandlersBytes {
			text = zip(t, gzip.BestSpeed, text)
		}
		if read, err := zkrec.ParseHandlers(hash, text); err != nil || len(read) != n {
			t.Errorf("%d handlers that another program has compressed are read as %d, %v", n, len(read), err)
		}
	}
}

func zip(t *testing.T, level int, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTooManyHandlersAreNotPublished(t *testing.T) {
	t.Parallel()
	var names []string
	for range zkrec.MaxHandlersBytes / 8 {
		names = append(names, random.Text()+random.Text())
	}
	for what, names := range map[string][]string{
		"too long when it is compressed": names,
		"too long to be compressed":      {strings.Repeat("x", 33*zkrec.MaxHandlersBytes)},
	} {
		if _, data, ok := zkrec.EncodeHandlers(names, nil); ok {
			t.Errorf("a list that is %s is to be published in %d bytes", what, len(data))
		}
	}
}

// A compressed node is read up to a bound, because some kilobytes of it may stand for gigabytes.
func TestHandlersThatUnpackToMore(t *testing.T) {
	t.Parallel()
	names := []string{"daily", "stats"}
	hash, _, _ := zkrec.EncodeHandlers(names, nil)
	good := zip(t, gzip.BestCompression, []byte("daily\nstats"))
	if read, err := zkrec.ParseHandlers(hash, good); err != nil || !slices.Equal(read, names) {
		t.Errorf("read as %q, %v", read, err)
	}
	bomb := zip(t, gzip.BestCompression, make([]byte, 64*zkrec.MaxHandlersBytes))
	for what, data := range map[string][]byte{
		"a bomb": bomb, "cut": good[:len(good)-3], "only the beginning": good[:2], "spoilt": append(slices.Clone(good[:12]), "spoilt"...),
	} {
		if read, err := zkrec.ParseHandlers(hash, data); err == nil {
			t.Errorf("%s is read as %d handlers", what, len(read))
		}
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
	printed, bare := make(map[string]string), make(map[string]string)
	for range zkrec.MaxHandlersBytes / 18 { // names with fingerprints take twice the room
		name := random.Text()[:16]
		printed[name], bare[name] = random.Text(), ""
	}
	if hash, data, _ := zkrec.EncodeHandlers([]string{"daily"}, printed); len(data) > zkrec.MaxHandlersBytes {
		t.Errorf("%d bytes", len(data))
	} else if jobs, known := zkrec.ParseDeclared(hash, data); !known || !maps.Equal(jobs, bare) {
		t.Errorf("no room for fingerprints: %d jobs, known: %v", len(jobs), known)
	}
	for what, test := range map[string]struct {
		jobs  map[string]string
		known bool
	}{
		"none":         {map[string]string{}, true},
		"not told":     {nil, false},
		"no room left": {map[string]string{strings.Repeat("x", 33*zkrec.MaxHandlersBytes): ""}, false},
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
