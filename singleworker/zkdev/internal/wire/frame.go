package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// MaxFrame is the length of the longest frame that a server accepts: the default of ZooKeeper's
// jute.maxbuffer.
const MaxFrame = 0xfffff

// A FrameError is returned for an invalid frame length.
type FrameError struct {
	Length int32
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("frame of %d bytes, at most %d", e.Length, MaxFrame)
}

// ReadFrame reads one frame's message.
func ReadFrame(r io.Reader) ([]byte, error) {
	length, err := ReadLength(r)
	if err != nil {
		return nil, err
	}
	return ReadMessage(r, length)
}

// ReadLength reads the four bytes before a message. Before it has connected, a client may send a
// four-letter word in their place.
func ReadLength(r io.Reader) (int32, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(head[:])), nil
}

// ReadMessage reads a message of the given length.
func ReadMessage(r io.Reader, length int32) ([]byte, error) {
	if length < 0 || length > MaxFrame {
		return nil, &FrameError{Length: length}
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, fmt.Errorf("frame of %d bytes: %w", length, err)
	}
	return message, nil
}

// frame reserves the length, lets write append the message, and fills it in.
func frame(write func([]byte) []byte) []byte {
	b := write(make([]byte, 4, 64))
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
