package zkdev

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPipeCarriesBytes sends more than a pipe holds, in pieces of random size.
func TestPipeCarriesBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newPipe("a", "b", Latency{})
		random := rand.New(rand.NewPCG(1, 1))
		sent := make([]byte, 5*pipeBuffer)
		for i := range sent {
			sent[i] = byte(random.Uint32())
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for rest := sent; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(100_000))
				if _, err := a.Write(rest[:n]); err != nil {
					t.Error(err)
				}
				rest = rest[n:]
			}
			_ = a.Close()
		})
		received, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(received, sent) {
			t.Errorf("received %d bytes, %v", len(received), err)
		}
		wg.Wait()
		if _, err := b.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) && err == nil {
			t.Errorf("write to a closed pipe: %v", err)
		}
	})
}

func TestPipeIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newPipe("a", "b", Latency{})
		defer b.Close()
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := a.Write(make([]byte, 3*pipeBuffer))
		if n != pipeBuffer || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
		if a.RemoteAddr().String() != "b" || a.LocalAddr().Network() != "in-process" {
			t.Errorf("addresses %v %v", a.LocalAddr(), a.RemoteAddr())
		}
	})
}
