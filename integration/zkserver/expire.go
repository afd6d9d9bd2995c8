package zkserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// expireTimeout limits ExpireSession if its context does not.
const expireTimeout = 10 * time.Second

// ExpireSession closes a session whose client is alive: the client's connection is closed, and when
// it reconnects it learns that its session has expired. When ExpireSession returns, the session's
// ephemeral nodes are gone. It does nothing if the session has already ended.
//
// It takes over the session like a reconnecting client and closes it. That requires the session's
// password, which ZooKeeper derives from the session id.
func (s *Server) ExpireSession(ctx context.Context, sessionID int64) error {
	ctx, cancel := context.WithTimeout(ctx, expireTimeout)
	defer cancel()
	// The client may reconnect in between; the connection then ends without a reply, and the next
	// attempt shows which of the two was first.
	err := retry(ctx, func() error { return closeSession(ctx, s.addr, sessionID) })
	if err != nil {
		return fmt.Errorf("expire session %#x on %s: %w", sessionID, s.addr, err)
	}
	return nil
}

// The part of ZooKeeper's protocol that closes a session. Each message is its length (4 bytes) and
// its fields; all numbers are big-endian.
type (
	// connectRequest opens a connection, here for an existing session.
	connectRequest struct {
		ProtocolVersion int32
		LastZxidSeen    int64
		TimeoutMillis   int32
		SessionID       int64
		PasswordLen     int32
		Password        [passwordLen]byte
	}
	// connectResponse has the requested session's id, or 0 if it has ended.
	connectResponse struct {
		ProtocolVersion int32
		TimeoutMillis   int32
		SessionID       int64
		PasswordLen     int32
		Password        [passwordLen]byte
	}
	requestHeader struct {
		Xid, Opcode int32
	}
	replyHeader struct {
		Xid   int32
		Zxid  int64
		Error int32
	}
)

const (
	passwordLen     = 16
	opcodeClose     = -11
	maxMessageBytes = 1 << 10
)

// closeSession connects with a session's id and password and closes the session.
func closeSession(ctx context.Context, addr string, sessionID int64) error {
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()

	// Both requests are sent before a reply is read, to give the session's client
	// as little time as possible to take it back.
	hello := connectRequest{
		TimeoutMillis: int32(expireTimeout.Milliseconds()),
		SessionID:     sessionID,
		PasswordLen:   passwordLen,
		Password:      sessionPassword(sessionID),
	}
	if err := send(conn, hello); err != nil {
		return err
	}
	if err := send(conn, requestHeader{Xid: 1, Opcode: opcodeClose}); err != nil {
		return err
	}

	var welcome connectResponse
	if err := receive(conn, &welcome); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if welcome.SessionID == 0 {
		return nil // the session has ended
	}
	var reply replyHeader
	if err := receive(conn, &reply); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if reply.Error != 0 {
		return permanentError{fmt.Errorf("close: ZooKeeper error %d", reply.Error)}
	}
	return nil
}

func send(w io.Writer, message any) error {
	buf := binary.BigEndian.AppendUint32(nil, uint32(binary.Size(message)))
	buf, err := binary.Append(buf, binary.BigEndian, message)
	if err != nil {
		return err
	}
	_, err = w.Write(buf)
	return err
}

// receive reads one message and ignores additional fields.
func receive(r io.Reader, message any) error {
	var length uint32
	if err := binary.Read(r, binary.BigEndian, &length); err != nil {
		return err
	}
	if length > maxMessageBytes {
		return permanentError{fmt.Errorf("message of %d bytes", length)}
	}
	buf := make([]byte, length)
	if _, err := io.ReadFull(r, buf); err != nil {
		return err
	}
	if _, err := binary.Decode(buf, binary.BigEndian, message); err != nil {
		return permanentError{errors.New("message too short")}
	}
	return nil
}

// sessionPassword is ZooKeeperServer.generatePasswd: the first 16 bytes of java.util.Random, seeded
// with the session id and a constant from its source.
func sessionPassword(sessionID int64) [passwordLen]byte {
	const (
		superSecret = 0xB3415C00 // ZooKeeper's

		multiplier = 0x5DEECE66D // java.util.Random's
		increment  = 0xB
		mask       = 1<<48 - 1
	)
	var password [passwordLen]byte
	state := (uint64(sessionID) ^ superSecret ^ multiplier) & mask
	for i := 0; i < passwordLen; i += 4 {
		state = (state*multiplier + increment) & mask
		// nextBytes takes the lowest byte of nextInt first.
		binary.LittleEndian.PutUint32(password[i:], uint32(state>>16))
	}
	return password
}
