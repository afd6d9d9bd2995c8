package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// DingTalk posts messages to a custom robot of a DingTalk group, as plain text. A robot that asks
// for keywords must accept one that is in all messages, such as the server type.
type DingTalk struct {
	// URL is the robot's, with its access_token.
	URL Secret
	// Key signs the requests ("SEC..."). Default: none, for robots without a signature.
	Key Secret
	// Transport makes the requests. Default: http.DefaultTransport.
	Transport http.RoundTripper
}

// Most is 0: the first 20 items are listed.
func (*DingTalk) Most() int { return 0 }

func (d *DingTalk) check() error { return web{d.URL, d.Transport}.check() }

// dingTalkText is below DingTalk's limit of 20,000 bytes, which counts escapes.
const dingTalkText = 8_000

// Send posts the message.
func (d *DingTalk) Send(ctx context.Context, m Message) error {
	return web{d.signed(strconv.FormatInt(m.At.UnixMilli(), 10)), d.Transport}.postToRobot(ctx, m.Text(dingTalkText))
}

// signed is the URL with the signature that DingTalk asks for.
func (d *DingTalk) signed(at string) Secret {
	if d.Key == "" {
		return d.URL
	}
	mac := hmac.New(sha256.New, []byte(d.Key))
	_, _ = mac.Write([]byte(at + "\n" + string(d.Key)))
	sign := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	separator := "?"
	if strings.Contains(string(d.URL), "?") {
		separator = "&"
	}
	return d.URL + Secret(separator+"timestamp="+at+"&sign="+url.QueryEscape(sign))
}
