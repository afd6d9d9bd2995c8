package tree

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

func worldACL(perms int32) []wire.ACL {
	return []wire.ACL{{Perms: perms, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
}

// allowed reports whether an ACL grants one of the permissions to one of the identities.
func allowed(acl []wire.ACL, perms int32, ids []wire.ID) bool {
	if len(acl) == 0 {
		return true
	}
	for _, entry := range acl {
		if entry.Perms&perms == 0 {
			continue
		}
		if entry.Scheme == "world" && entry.ID.ID == "anyone" {
			return true
		}
		for _, id := range ids {
			if id.Scheme == entry.Scheme && matches(id, entry.ID) {
				return true
			}
		}
	}
	return false
}

func matches(id, pattern wire.ID) bool {
	switch id.Scheme {
	case "digest":
		return id.ID == pattern.ID
	case "ip":
		prefix, ok := parseIP(pattern.ID)
		addr, err := netip.ParseAddr(id.ID)
		return ok && err == nil && prefix.Contains(addr)
	}
	return false
}

// maxACL limits an ACL: each request to its node compares the entries with the client's identities
// while all other clients wait. ZooKeeper has no such limit.
const maxACL = 10_000

// fixACL checks the ACL of a create or setACL, drops duplicates, and replaces "auth" by the
// client's identities.
func fixACL(acl []wire.ACL, ids []wire.ID) ([]wire.ACL, wire.Code) {
	var fixed []wire.ACL
	seen := make(map[wire.ACL]bool, len(acl))
	for _, entry := range acl {
		if seen[entry] {
			continue
		}
		seen[entry] = true
		switch {
		case entry.Scheme == "world" && entry.ID.ID == "anyone":
			fixed = append(fixed, entry)
		case entry.Scheme == "auth":
			before := len(fixed)
			for _, id := range ids {
				if id.Scheme == "digest" {
					fixed = append(fixed, wire.ACL{Perms: entry.Perms, ID: id})
				}
			}
			if len(fixed) == before {
				return nil, wire.InvalidACL
			}
		case validID(entry.ID):
			fixed = append(fixed, entry)
		default:
			return nil, wire.InvalidACL
		}
		if len(fixed) > maxACL {
			return nil, wire.InvalidACL
		}
	}
	if len(fixed) == 0 {
		return nil, wire.InvalidACL
	}
	return fixed, wire.OK
}

func validID(id wire.ID) bool {
	switch id.Scheme {
	case "digest":
		// Java's split drops empty parts at the end.
		_, digest, found := strings.Cut(id.ID, ":")
		digest = strings.TrimRight(digest, ":")
		return found && digest != "" && !strings.Contains(digest, ":")
	case "ip":
		_, ok := parseIP(id.ID)
		return ok
	}
	return false
}

// parseIP parses an IPv4 address with an optional prefix length.
func parseIP(text string) (netip.Prefix, bool) {
	address, suffix, hasBits := strings.Cut(text, "/")
	parts := strings.Split(address, ".")
	if len(parts) != 4 {
		return netip.Prefix{}, false
	}
	var ip [4]byte
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil || v < 0 || v > 255 {
			return netip.Prefix{}, false
		}
		ip[i] = byte(v)
	}
	bits := 32
	if hasBits {
		v, err := strconv.Atoi(suffix)
		if err != nil || v < 0 || v > 32 {
			return netip.Prefix{}, false
		}
		bits = v
	}
	return netip.PrefixFrom(netip.AddrFrom4(ip), bits), true
}

// hideDigest returns an ACL as shown to clients that may read but not change it.
func hideDigest(acl []wire.ACL) []wire.ACL {
	hidden := slices.Clone(acl)
	for i, entry := range hidden {
		if user, _, ok := strings.Cut(entry.ID.ID, ":"); ok && entry.Scheme == "digest" {
			hidden[i].ID.ID = user + ":x"
		}
	}
	return hidden
}

// SortIDs orders identities like ZooKeeper, in the order of a Java HashSet.
func SortIDs(ids []wire.ID) []wire.ID {
	set := javaSet[wire.ID]{buckets: defaultBuckets}
	for _, id := range ids {
		set.add(id, 37*(37*17+hashString(id.Scheme))+hashString(id.ID))
	}
	return set.list()
}
