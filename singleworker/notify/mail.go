package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"
)

// Mail sends messages by SMTP, encrypted: at once on port 465, otherwise by STARTTLS, which the
// server must offer unless it is on this machine.
type Mail struct {
	// Server is "host:port".
	Server string
	// User and Password log in. Default: no login.
	User     string
	Password Secret
	// From is the sender's address, To the receivers'.
	From string
	To   []string
	// TLS changes how the server is verified. Default: by its host name and the system's certificates.
	TLS *tls.Config
}

// Most is 0: the first 20 items are listed.
func (*Mail) Most() int { return 0 }

func (m *Mail) check() error {
	host, port, err := net.SplitHostPort(m.Server)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("field Server: %q: want host:port", m.Server)
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		return fmt.Errorf("field From: %q: %w", m.From, err)
	}
	if len(m.To) == 0 {
		return errors.New("field To: name at least one address")
	}
	for _, to := range m.To {
		if _, err := mail.ParseAddress(to); err != nil {
			return fmt.Errorf("field To: %q: %w", to, err)
		}
	}
	if (m.User == "") != (m.Password == "") {
		return errors.New("fields User and Password: set both, or neither")
	}
	return nil
}

// Send sends one mail to all receivers. An error after the server has accepted it is not one.
func (m *Mail) Send(ctx context.Context, message Message) error {
	err := m.send(ctx, message)
	if refused := (*textproto.Error)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%s: error %d: %s", m.Server, refused.Code, excerpt([]byte(refused.Msg)))
	}
	return err
}

func (m *Mail) send(ctx context.Context, message Message) error {
	const smtps = "465"
	host, port, err := net.SplitHostPort(m.Server)
	if err != nil {
		return err
	}
	config := &tls.Config{}
	if m.TLS != nil {
		config = m.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if config.ServerName == "" {
		config.ServerName = host
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Server)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if port == smtps {
		conn = tls.Client(conn, config)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		_ = conn.Close()
		return err
	}
	defer func() { _ = client.Close() }()
	if offered, _ := client.Extension("STARTTLS"); offered && port != smtps {
		if err := client.StartTLS(config); err != nil {
			return err
		}
	}
	if _, secure := client.TLSConnectionState(); !secure && !isLocal(host) {
		return fmt.Errorf("%s does not offer STARTTLS: nothing is sent in the clear", m.Server)
	}
	if m.User != "" {
		if err := client.Auth(smtp.PlainAuth("", m.User, string(m.Password), host)); err != nil {
			return err
		}
	}
	return m.hand(client, m.text(message))
}

// hand gives the server a mail.
func (m *Mail) hand(client *smtp.Client, text []byte) error {
	if err := client.Mail(bare(m.From)); err != nil {
		return err
	}
	for _, to := range m.To {
		if err := client.Rcpt(bare(to)); err != nil {
			return err
		}
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = client.Quit()
	return nil
}

// text is the mail. Its Message-ID is the same if the same news is sent again.
func (m *Mail) text(message Message) []byte {
	const most = 64 << 10
	var ids []string
	for _, item := range message.Items {
		ids = append(ids, item.ID)
	}
	var text bytes.Buffer
	for _, line := range [][2]string{
		{"From", address(m.From)},
		{"To", addresses(m.To)},
		{"Subject", mime.QEncoding.Encode("utf-8", message.Subject())},
		{"Date", message.At.Format(time.RFC1123Z)},
		{"Message-ID", "<" + itemID(ids...) + "@singleworker.invalid>"},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		text.WriteString(line[0] + ": " + line[1] + "\r\n")
	}
	text.WriteString("\r\n")
	body := quotedprintable.NewWriter(&text)
	_, _ = body.Write([]byte(strings.ReplaceAll(message.Text(most), "\n", "\r\n")))
	_ = body.Close()
	return text.Bytes()
}

// bare is an address without a name; address is one for a header.
func bare(text string) string {
	parsed, err := mail.ParseAddress(text)
	if err != nil {
		return ""
	}
	return parsed.Address
}

func address(text string) string {
	parsed, err := mail.ParseAddress(text)
	if err != nil {
		return ""
	}
	return parsed.String()
}

func addresses(all []string) string {
	var list []string
	for _, text := range all {
		list = append(list, address(text))
	}
	return strings.Join(list, ", ")
}
