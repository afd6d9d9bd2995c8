package zkconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

const defaultPort = "2181"

const (
	// inDirectory begins the address of a server for one machine, before its directory.
	inDirectory = "file:"

	// socketPath is the path of its socket below that: package durable has it, too.
	socketPath = "version-2/socket"

	// maxSocketPath is the length that each system allows.
	maxSocketPath = 103
)

// ParseServers parses ZooKeeper's connect string, "host[:port],host[:port]/chroot". The port
// defaults to 2181. IPv6 addresses are in brackets. chroot is "" or begins with '/'. With
// "file:DIR", it is the server for one machine whose data is there, without a chroot.
func ParseServers(text string) (servers []string, chroot string, err error) {
	if path, ok := socketOf(text); ok {
		switch {
		case text == inDirectory:
			err = errors.New("has no directory, want file:DIR")
		case len(path) > maxSocketPath:
			err = fmt.Errorf("is too long: the path of its socket, %s, has at most %d bytes", path, maxSocketPath)
		}
		return []string{text}, "", err
	}
	hosts := text
	if i := strings.IndexByte(text, '/'); i >= 0 {
		hosts, chroot = text[:i], strings.TrimSuffix(text[i:], "/")
	}
	if err := checkChroot(chroot); err != nil {
		return nil, "", err
	}
	for host := range strings.SplitSeq(hosts, ",") {
		server, err := parseServer(strings.TrimSpace(host))
		if err != nil {
			return nil, "", err
		}
		servers = append(servers, server)
	}
	return servers, chroot, nil
}

// CheckTLS refuses TLS for the socket of a server for one machine, which has none.
func CheckTLS(servers string, cfg *tls.Config) error {
	if _, ok := socketOf(servers); !ok || cfg == nil {
		return nil
	}
	return errors.New("is a socket of this machine, without TLS: leave TLS out, or name the server by host:port")
}

// socketOf returns the path of the socket of a server for one machine.
func socketOf(address string) (path string, ok bool) {
	dir, ok := strings.CutPrefix(address, inDirectory)
	return filepath.Join(dir, filepath.FromSlash(socketPath)), ok
}

func parseServer(text string) (string, error) {
	if text == "" {
		return "", errors.New(`has an empty address, want "host:port,host:port/chroot"`)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		var stillErr error
		if host, port, stillErr = net.SplitHostPort(text + ":" + defaultPort); stillErr != nil {
			return "", fmt.Errorf("address %q: %w; put IPv6 addresses in brackets", text, err)
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("address %q: port %q is not between 1 and 65535", text, port)
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n@") {
		return "", fmt.Errorf("address %q: %q is not a host", text, host)
	}
	return net.JoinHostPort(host, port), nil
}

func checkChroot(chroot string) error {
	if chroot == "" {
		return nil
	}
	for part := range strings.SplitSeq(chroot[1:], "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\x00\r\n\t") {
			return fmt.Errorf("chroot %q: %q is not a valid node name", chroot, part)
		}
	}
	return nil
}

// CheckAuth returns an error unless text is empty or "user:password".
func CheckAuth(text string) error {
	user, _, ok := strings.Cut(text, ":")
	if text != "" && (!ok || user == "") {
		return errors.New(`is not of the form "user:password"`)
	}
	return nil
}

// Hidden stands for credentials in printed text. Without credentials it is empty.
func Hidden(auth string) string {
	if auth == "" {
		return ""
	}
	return "(not shown)"
}
