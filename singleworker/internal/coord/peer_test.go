package coord

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
)

var discard = slog.New(slog.DiscardHandler)

// What a peer does to an operation.
const (
	noNode     int32 = -101
	badVersion int32 = -103
	hangUp     int32 = 1 // no answer, and the connection breaks
)

// peer is a server that knows transactions of checks and sets and nothing else.
type peer struct {
	refuse map[string]int32 // by path

	mu   sync.Mutex
	sent []string // the paths of each transaction
}

func (p *peer) transactions() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

func (p *peer) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	replies := make(chan []byte, 1000) // a pipe has no buffer
	go func() {
		defer close(replies)
		p.serve(server, replies)
	}()
	go func() {
		defer func() { _ = server.Close() }()
		for reply := range replies {
			if _, err := server.Write(append(put(nil, int32(len(reply))), reply...)); err != nil {
				return
			}
		}
	}()
	return client, nil
}

func (p *peer) serve(conn io.Reader, replies chan<- []byte) {
	if _, err := readFrame(conn); err != nil {
		return
	}
	replies <- put(append(put(put(nil, 0), 4000), 0, 0, 0, 0, 0, 0, 0, 1), 0) // a session of 4 s
	for {
		request, err := readFrame(conn)
		if err != nil {
			return
		}
		xid, operation := int32(binary.BigEndian.Uint32(request)), int32(binary.BigEndian.Uint32(request[4:]))
		header := put(append(put(nil, xid), 0, 0, 0, 0, 0, 0, 0, 1), 0)
		if operation != 14 { // a ping, or the end
			replies <- header
			continue
		}
		body, ok := p.multi(request[8:])
		if !ok {
			return
		}
		replies <- append(header, body...)
	}
}

// multi answers a transaction; ok is false when the connection is to break.
func (p *peer) multi(request []byte) (body []byte, ok bool) {
	var paths []string
	var kinds []int32
	for request[4] == 0 { // not the last header
		kind := int32(binary.BigEndian.Uint32(request))
		rest := request[9:]
		path, rest := text(rest)
		if kind == set {
			_, rest = text(rest)
		}
		request = rest[4:] // version
		paths, kinds = append(paths, path), append(kinds, kind)
	}
	p.mu.Lock()
	p.sent = append(p.sent, strings.Join(paths, " "))
	p.mu.Unlock()
	at := slices.IndexFunc(paths, func(path string) bool { return p.refuse[path] != 0 })
	for i, kind := range kinds {
		if at >= 0 {
			code := int32(0)
			if i == at {
				if code = p.refuse[paths[i]]; code == hangUp {
					return nil, false
				}
			}
			body = put(put(append(put(body, -1), 0), code), code)
			continue
		}
		body = put(append(put(body, kind), 0), 0)
		if kind == set { // the node's stat: its version is ten times its group's number and one
			body = append(body, make([]byte, 32)...)
			body = append(put(body, int32(10*(i/2)+11)), make([]byte, 32)...)
		}
	}
	return put(append(put(body, -1), 1), -1), true
}

const set = 5

func readFrame(conn io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(conn, body)
	return body, err
}

func text(b []byte) (text string, rest []byte) {
	n := max(0, int32(binary.BigEndian.Uint32(b))) // -1: no data at all
	return string(b[4 : 4+n]), b[4+n:]
}

func put(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }
