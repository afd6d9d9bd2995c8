package zkconn

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

func TestParseServers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		servers []string
		chroot  string
	}{
		"zk1":                          {[]string{"zk1:2181"}, ""},
		"zk1:2182":                     {[]string{"zk1:2182"}, ""},
		"zk1:2181,zk2:2182,zk3":        {[]string{"zk1:2181", "zk2:2182", "zk3:2181"}, ""},
		" zk1 , zk2:2182 ":             {[]string{"zk1:2181", "zk2:2182"}, ""},
		"zk1,zk2/prod":                 {[]string{"zk1:2181", "zk2:2181"}, "/prod"},
		"zk1:2181/prod/team a/":        {[]string{"zk1:2181"}, "/prod/team a"},
		"zk1/":                         {[]string{"zk1:2181"}, ""},
		"10.0.0.1,10.0.0.2:2182":       {[]string{"10.0.0.1:2181", "10.0.0.2:2182"}, ""},
		"[::1]:2182,[2001:db8::7]/x":   {[]string{"[::1]:2182", "[2001:db8::7]:2181"}, "/x"},
		"zk.example.com.:2181":         {[]string{"zk.example.com.:2181"}, ""},
		"zk1:1,zk1:65535":              {[]string{"zk1:1", "zk1:65535"}, ""},
		"file:/var/lib/billing":        {[]string{"file:/var/lib/billing"}, ""},
		"file:data, 1":                 {[]string{"file:data, 1"}, ""},
		"[fe80::1%eth0]:2181/p/q/r..s": {[]string{"[fe80::1%eth0]:2181"}, "/p/q/r..s"},
	} {
		servers, chroot, err := ParseServers(text)
		if err != nil || !slices.Equal(servers, want.servers) || chroot != want.chroot {
			t.Errorf("ParseServers(%q) = %q, %q, %v\nwant %q, %q", text, servers, chroot, err, want.servers, want.chroot)
		}
	}
}

func TestParseServersErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":               `has an empty address, want "host:port,host:port/chroot"`,
		"/prod":          "has an empty address",
		"zk1,,zk2":       "has an empty address",
		"zk1,":           "has an empty address",
		"zk1:0":          `address "zk1:0": port "0" is not between 1 and 65535`,
		"zk1:65536":      `port "65536" is not between 1 and 65535`,
		"zk1:":           `port "" is not between 1 and 65535`,
		"zk1:http":       `port "http" is not between 1 and 65535`,
		":2181":          `address ":2181": "" is not a host`,
		"zk 1:2181":      `"zk 1" is not a host`,
		"user@zk1:2181":  `"user@zk1" is not a host`,
		"zk1:2181:2182":  `address "zk1:2181:2182": address zk1:2181:2182: too many colons in address; put IPv6 addresses in brackets`,
		"::1":            "put IPv6 addresses in brackets",
		"::1:2181":       "put IPv6 addresses in brackets", // an address, or an address and a port
		"[::1":           `address "[::1"`,
		"[::1]]":         `address "[::1]]"`,
		"[::1:2181":      `address "[::1:2181"`,
		"zk1//":          `chroot "/": "" is not a valid node name`,
		"zk1/a//b":       `chroot "/a//b": "" is not a valid node name`,
		"zk1/a/../b":     `".." is not a valid node name`,
		"zk1/./b":        `"." is not a valid node name`,
		"zk1/a\x00b":     `"a\x00b" is not a valid node name`,
		"zk1/prod\n":     `"prod\n" is not a valid node name`,
		"file:":          "has no directory, want file:DIR",
		"zookeeper://zk": `chroot "//zk": "" is not a valid node name`,

		"file:/" + strings.Repeat("d", 86): "has at most 103 bytes",
	} {
		if servers, chroot, err := ParseServers(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseServers(%q) = %q, %q, %v\nwant %s", text, servers, chroot, err, want)
		}
	}
}

// TestCheckTLS: what a server without TLS cannot give is not left out in silence.
func TestCheckTLS(t *testing.T) {
	t.Parallel()
	for servers, refused := range map[string]bool{"file:/data": true, "zk1:2181": false} {
		if err := CheckTLS(servers, new(tls.Config)); (err != nil) != refused {
			t.Errorf("TLS with %s: %v", servers, err)
		}
		if err := CheckTLS(servers, nil); err != nil {
			t.Errorf("no TLS with %s: %v", servers, err)
		}
	}
}

func TestParseACL(t *testing.T) {
	t.Parallel()
	const readOnly, all = zk.PermRead, zk.PermAll
	const app = "app:s3cret"
	own := zk.DigestACL(all, "app", "s3cret")[0]
	for _, row := range []struct {
		text string
		auth string
		want []zk.ACL
	}{
		{"", "", []zk.ACL{{Perms: all, Scheme: "world", ID: "anyone"}}},
		{"", app, []zk.ACL{own}},
		{"world:anyone:r", "", []zk.ACL{{Perms: readOnly, Scheme: "world", ID: "anyone"}}},
		{"auth::cdrwa,world:anyone:r", app, []zk.ACL{own, {Perms: readOnly, Scheme: "world", ID: "anyone"}}},
		{"auth:ignored:cdrwa", app, []zk.ACL{own}},
		{"digest:app:s2cr=:awrdc", "", []zk.ACL{{Perms: all, Scheme: "digest", ID: "app:s2cr="}}},
		{"ip:2001:db8::7:rw", "", []zk.ACL{{Perms: zk.PermRead | zk.PermWrite, Scheme: "ip", ID: "2001:db8::7"}}},
		{"world:anyone:c", "", []zk.ACL{{Perms: zk.PermCreate, Scheme: "world", ID: "anyone"}}},
		{"world:anyone:d", "", []zk.ACL{{Perms: zk.PermDelete, Scheme: "world", ID: "anyone"}}},
		{"world:anyone:a", "", []zk.ACL{{Perms: zk.PermAdmin, Scheme: "world", ID: "anyone"}}},
	} {
		if got, err := ParseACL(row.text, row.auth); err != nil || !slices.Equal(got, row.want) {
			t.Errorf("ParseACL(%q, %q) = %v, %v\nwant %v", row.text, row.auth, got, err, row.want)
		}
	}
	for text, want := range map[string]string{
		"world":               `entry "world" is not "scheme:id:perms"`,
		"world:anyone":        `entry "world:anyone" is not "scheme:id:perms"`,
		":anyone:r":           `entry ":anyone:r" is not "scheme:id:perms"`,
		"world:anyone:r,":     `entry "" is not "scheme:id:perms"`,
		"world:anyone:":       `entry "world:anyone:" grants no permission`,
		"world:anyone:rx":     `entry "world:anyone:rx": permission 'x' is not one of c, d, r, w, a`,
		"world:anyone:R":      `permission 'R' is not one of`,
		"auth::cdrwa":         `entry "auth::cdrwa" needs Auth`,
		"world:anyone:r,auth": `entry "auth" is not "scheme:id:perms"`,
	} {
		if got, err := ParseACL(text, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseACL(%q) = %v, %v\nwant %s", text, got, err, want)
		}
	}
}

func TestCheckAuth(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"": true, "app:secret": true, "app:se:cr:et": true, "app:": true,
		"app": false, ":secret": false, ":": false,
	} {
		err := CheckAuth(text)
		if good && err != nil || !good && (err == nil || err.Error() != `is not of the form "user:password"`) {
			t.Errorf("CheckAuth(%q) = %v, want good: %v", text, err, good)
		}
	}
}
