package group

import (
	"os"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// ReadIdentities reads a file of identities that a flag names, one per line: user:password,
// user:HASH, or scheme:id. With a password in it, it must be a secret, see ReadSecret. No error
// repeats the file's content.
func ReadIdentities(flag, path string) (identities []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, cmdline.Usage("--%s: %w", flag, err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, ok := strings.Cut(line, ":")
		switch {
		case !ok || name == "" || rest == "":
			return nil, cmdline.Usage("--%s %s: line %d is not user:password, user:HASH or scheme:id", flag, path, n)
		case name == "ip" || name == "x509" || name == "sasl" || name == "world" || name == "digest":
			identities = append(identities, line)
		case admin.IsDigestHash(rest):
			identities = append(identities, "digest:"+line)
		default:
			if err := checkSecret(flag, path); err != nil {
				return nil, err
			}
			identities = append(identities, admin.DigestIdentity(name, rest))
		}
	}
	if len(identities) == 0 {
		return nil, cmdline.Usage("--%s %s: has no identity", flag, path).Try("a line user:password")
	}
	return identities, nil
}
