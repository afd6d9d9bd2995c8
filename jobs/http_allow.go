package jobs

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// urlPrefix is a normalized URL, for comparison.
type urlPrefix struct {
	scheme string
	host   string // lower case, with port
	path   string // decoded and clean, without a trailing slash
}

// parsePrefix parses an entry of HTTPConfig.Allow.
func parsePrefix(text string) (urlPrefix, error) {
	u, err := url.Parse(text)
	if err != nil {
		return urlPrefix{}, errors.New("is not a URL")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return urlPrefix{}, errors.New("has a query or a fragment, which are not compared: remove it")
	}
	return prefixOf(u)
}

// prefixOf normalizes a URL. It rejects URLs that this package, a proxy and the
// server could interpret differently.
func prefixOf(u *url.URL) (urlPrefix, error) {
	defaultPort := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	below := strings.TrimSuffix(u.Path, "/")
	switch {
	case defaultPort == "":
		return urlPrefix{}, errors.New("is not an http or https URL")
	case u.Hostname() == "":
		return urlPrefix{}, errors.New("has no host")
	case u.User != nil:
		return urlPrefix{}, errors.New("has a user name in it")
	case strings.Contains(strings.ToLower(u.EscapedPath()), "%2f"), strings.Contains(u.Path, `\`):
		return urlPrefix{}, errors.New("has an encoded slash or a backslash in its path")
	case strings.Contains(u.Path, "%"), !utf8.ValidString(u.Path), strings.ContainsFunc(u.Path, func(r rune) bool { return !unicode.IsPrint(r) }):
		return urlPrefix{}, errors.New("has a character that is encoded twice or not printable in its path")
	case below != "" && path.Clean(below) != below:
		return urlPrefix{}, errors.New(`has "..", "." or "//" in its path`)
	}
	for segment := range strings.SplitSeq(below, "/") {
		// Java's servers strip the text from ";" on before they resolve "..", others trim blanks.
		if name, _, _ := strings.Cut(segment, ";"); name != segment && strings.Trim(name, ". ") == "" ||
			strings.HasPrefix(segment, "..") && strings.Trim(segment, ". ") == "" {
			return urlPrefix{}, errors.New(`has a segment in its path that some servers take for ".."`)
		}
	}
	host := net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), defaultPort))
	return urlPrefix{scheme: u.Scheme, host: host, path: below}, nil
}

// covers reports whether target is p or below it.
func (p urlPrefix) covers(target urlPrefix) bool {
	below, ok := strings.CutPrefix(target.path, p.path)
	return p.scheme == target.scheme && p.host == target.host && ok &&
		(below == "" || below[0] == '/')
}
