package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// worthZip is from how many bytes on an answer is sent compressed.
const worthZip = 4 << 10

const (
	gzipped = "gzip"
	plainly = "identity"
)

// zipped compresses an answer if that is worth it and the browser takes it: the timeline of a month
// of runs has half a megabyte. Pages have no secrets beside what requests put into them, so their
// lengths tell none.
func zipped(r *http.Request, a answer) answer {
	if a.coding = plainly; len(a.text) >= worthZip && takesZip(r) {
		var text bytes.Buffer
		z := gzip.NewWriter(&text) // neither writing nor closing fails into memory
		_, _ = z.Write(a.text)
		_ = z.Close()
		a.text, a.coding = text.Bytes(), gzipped
	}
	return a
}

// takesZip reports whether a request accepts gzip by its name: "gzip;q=0" says that it does not.
func takesZip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, q, weighted := strings.Cut(weight, "q=")
			number, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return !weighted || err == nil && number > 0
		}
	}
	return false
}
