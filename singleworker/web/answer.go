package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// answer is the response to a request.
type answer struct {
	status int    // 0: 200
	kind   string // its Content-Type
	text   []byte
	coding string // "" if the browser has no say, else "identity" or "gzip"
	to     string // the page to go to, or ""
	tag    string // its ETag, or ""
}

// tagOf is the entity tag of a job. It stays while runs, owners and pauses change.
func tagOf(s admin.JobStatus) string { return fmt.Sprintf(`"%x-%d"`, s.ID, s.Version) }

// send sends an answer. It holds no turn, because the reader may be slow.
func (a answer) send(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", a.kind)
	header.Set("Content-Length", strconv.Itoa(len(a.text)))
	if a.coding != "" {
		header.Set("Vary", "Accept-Encoding")
	}
	if a.coding == gzipped {
		header.Set("Content-Encoding", gzipped)
	}
	if a.to != "" {
		header.Set("Location", a.to)
	}
	if a.tag != "" {
		header.Set("ETag", a.tag)
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(a.text)
}

// worthZip is from how many bytes on an answer is sent compressed.
const worthZip = 4 << 10

const (
	gzipped = "gzip"
	plainly = "identity"
)

// zipped compresses an answer if that is worth it and the browser takes it: the timeline of a month
// of runs has half a megabyte. Pages have no secrets beside the text of requests, so their
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
