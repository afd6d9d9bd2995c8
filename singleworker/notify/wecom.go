package notify

import (
	"context"
	"net/http"
)

// WeCom posts messages to a robot of a WeCom (WeChat Work) group, as plain text.
type WeCom struct {
	// URL is the robot's, with its key.
	URL Secret
	// Transport makes the requests. Default: http.DefaultTransport.
	Transport http.RoundTripper
}

// Most is 0: as many of the first 20 items as there is room for are listed.
func (*WeCom) Most() int { return 0 }

func (w *WeCom) web() web { return web{w.URL, w.Transport} }

func (w *WeCom) check() error { return w.web().check() }

// weComText is WeCom's limit of a text, in bytes.
const weComText = 2048

// Send posts the message.
func (w *WeCom) Send(ctx context.Context, m Message) error {
	return w.web().postToRobot(ctx, m.Text(weComText))
}
