package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Webhook posts messages as a batch of CloudEvents 1.0 in JSON
// (application/cloudevents-batch+json): an array with an event for each item, whose "id" is
// Item.ID, whose "type" is "singleworker.job.failed" (or ".missed", ".recovered" ...), whose
// "source" is "/singleworker/" and the server type, whose "subject" is the job, and whose "data" is
// the Item.
//
// Requests are signed as Standard Webhooks: the headers webhook-id, webhook-timestamp (Unix
// seconds) and webhook-signature, "v1," and the base64 of HMAC-SHA256 over "id.timestamp.body".
// Verify does a receiver's part. Any status from 200 to 299 confirms the delivery.
type Webhook struct {
	URL Secret
	// Key signs the requests: at least 24 bytes, or "whsec_" and the base64 of the key, as Standard
	// Webhooks write it.
	Key Secret
	// Header is added to requests. Default: none.
	Header map[string]Secret
	// Transport makes the requests, for another proxy or private certificates. Default:
	// http.DefaultTransport.
	Transport http.RoundTripper
}

// inBatch is how many events a request of a Webhook has.
const inBatch = 500

// Most is 500.
func (*Webhook) Most() int { return inBatch }

func (h *Webhook) web() web { return web{h.URL, h.Transport} }

func (h *Webhook) check() error {
	if err := h.web().check(); err != nil {
		return err
	}
	_, err := keyOfText(h.Key)
	return err
}

// keyOfText reads a key.
func keyOfText(text Secret) ([]byte, error) {
	const least = 24
	key := []byte(text)
	if encoded, ok := strings.CutPrefix(string(text), "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New(`field Key: what follows "whsec_" is not base64`)
		}
	}
	if len(key) < least {
		return nil, fmt.Errorf("field Key: want at least %d bytes, such as those of openssl rand -base64 32", least)
	}
	return key, nil
}

type cloudEvent struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Type        string    `json:"type"`
	Source      string    `json:"source"`
	Subject     string    `json:"subject"`
	Time        time.Time `json:"time,omitzero"`
	ContentType string    `json:"datacontenttype"`
	Data        Item      `json:"data"`
}

// Send posts the items.
func (h *Webhook) Send(ctx context.Context, m Message) error {
	key, err := keyOfText(h.Key)
	if err != nil {
		return err
	}
	events := make([]cloudEvent, len(m.Items))
	ids := make([]string, len(m.Items))
	for i, item := range m.Items {
		kind := string(item.Kind)
		if m.Test {
			kind = "test"
		}
		ids[i] = item.ID
		events[i] = cloudEvent{
			SpecVersion: "1.0", ID: item.ID, Type: "singleworker.job." + kind, Source: "/singleworker/" + url.PathEscape(m.ServerType),
			Subject: item.Job, Time: item.At, ContentType: "application/json", Data: item,
		}
	}
	body, err := marshal(events)
	if err != nil {
		return err
	}
	header := make(http.Header)
	for name, value := range h.Header {
		header.Set(name, string(value))
	}
	id, at := itemID(ids...), strconv.FormatInt(m.At.Unix(), 10)
	header.Set("Content-Type", "application/cloudevents-batch+json; charset=utf-8")
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", at)
	header.Set("Webhook-Signature", "v1,"+signature(key, id, at, body))
	_, err = h.web().post(ctx, header, body)
	return err
}

func signature(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(id + "." + at + "."))
	_, _ = mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// ErrSignature is returned by Verify.
var ErrSignature = errors.New("notify: the signature does not fit the request")

// Verify returns nil if a request of a Webhook with that key has this header and body, and was made
// within 5 minutes of now; else ErrSignature, or a fault of the key. The receiver should then drop
// events with an id that it has seen.
func Verify(key Secret, header http.Header, body []byte, now time.Time) error {
	const tolerance = 5 * time.Minute
	secret, err := keyOfText(key)
	if err != nil {
		return err
	}
	id, at := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return ErrSignature
	}
	want := signature(secret, id, at, body)
	for given := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		version, text, _ := strings.Cut(given, ",")
		if version == "v1" && hmac.Equal([]byte(text), []byte(want)) {
			return nil
		}
	}
	return ErrSignature
}
