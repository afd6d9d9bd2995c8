package notify

import (
	"context"
	"net/http"
	"strings"
)

// Slack posts messages to an incoming webhook of Slack, or of a service that speaks its format,
// such as Mattermost. Texts cannot mention anybody.
type Slack struct {
	// URL is the webhook's: it authorizes the message.
	URL Secret
	// Transport makes the requests. Default: http.DefaultTransport.
	Transport http.RoundTripper
}

// Most is 0: the first 20 items are listed.
func (*Slack) Most() int { return 0 }

func (s *Slack) web() web { return web{s.URL, s.Transport} }

func (s *Slack) check() error { return s.web().check() }

// slackText is more than 20 items take; Slack cuts at 40,000 characters.
const slackText = 20_000

// Send posts the message.
func (s *Slack) Send(ctx context.Context, m Message) error {
	escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(m.Text(slackText))
	_, err := s.web().postJSON(ctx, struct {
		Text     string `json:"text"`
		Markdown bool   `json:"mrkdwn"`
		Unfurl   bool   `json:"unfurl_links"`
	}{Text: escaped})
	return err
}
