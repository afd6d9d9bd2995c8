package zkrec_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestHandlersAreNamedByTheirContent(t *testing.T) {
	t.Parallel()
	hash, data, ok := zkrec.EncodeHandlers([]string{"stats", "daily", "stats"})
	again, _, _ := zkrec.EncodeHandlers([]string{"daily", "stats"})
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
	none, data, ok := zkrec.EncodeHandlers(nil)
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
	if _, data, ok := zkrec.EncodeHandlers(names); !ok || len(data) != zkrec.MaxHandlersBytes-1 {
		t.Errorf("%d bytes: %v", len(data), ok)
	}
	names[0] += "xx"
	if _, _, ok := zkrec.EncodeHandlers(names); ok {
		t.Error("a list that is too long is to be published")
	}
}
