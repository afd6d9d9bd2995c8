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

// send answers with a text, compressed if that is worth it and the browser takes it: the timeline of a month of runs has half a
// megabyte. Pages have no secrets beside what requests put into them, so their lengths tell none. Status 0 is 200.
func send(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	header := w.Header()
	header.Add("Vary", "Accept-Encoding")
	if len(text) >= worthZip && takesZip(r) {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped) // neither writing nor closing fails into memory
		_, _ = z.Write(text)
		_ = z.Close()
		text = zipped.Bytes()
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(text)))
	if status != 0 {
		w.WriteHeader(status)
	}
	_, _ = w.Write(text)
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
