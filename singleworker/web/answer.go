package web

import (
	"net/http"
	"strconv"
)

// answer is the response to a request.
type answer struct {
	status int    // 0: 200
	kind   string // its Content-Type
	text   []byte
	coding string // "" if the browser has no say, else "identity" or "gzip"
}

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
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(a.text)
}

// inTurn sends the answers that a function makes.
func (h *handler) inTurn(answered func(*http.Request) answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, err := h.visitors.inTurn(r, answered); err == nil { // else nobody waits for it
			a.send(w)
		}
	})
}
