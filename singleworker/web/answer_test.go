package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

func TestSend(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("<p>a page</p>"), worthZip)
	for _, row := range []struct {
		accept string
		text   []byte
		zipped bool
	}{
		{"gzip", long, true},
		{"br, GZIP ; q=0.5, deflate", long, true},
		{"gzip, deflate, br, zstd", long, true},
		{"gzip", long[:worthZip-1], false},
		{"", long, false},
		{"br;q=1.0, *;q=0.1", long, false},
		{"gzip;q=0", long, false},
		{"gzip;q=often", long, false},
		{"xgzip", long, false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", row.accept)
		w := httptest.NewRecorder()
		zipped(r, answer{status: http.StatusNotFound, text: row.text}).send(w)
		got := w.Result()
		body, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode != http.StatusNotFound || got.Header.Get("Vary") != "Accept-Encoding" ||
			got.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("%q: status %d, %d bytes, headers %v", row.accept, got.StatusCode, len(body), got.Header)
		}
		if zipped := got.Header.Get("Content-Encoding") == "gzip"; zipped != row.zipped {
			t.Errorf("%q, %d bytes: zipped %v, want %v", row.accept, len(row.text), zipped, row.zipped)
			continue
		}
		if row.zipped {
			if len(body) > len(row.text)/10 {
				t.Errorf("%q: %d bytes of %d are sent", row.accept, len(body), len(row.text))
			}
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(body, row.text) {
			t.Errorf("%q: another text arrives", row.accept)
		}
	}
}
