package election

import (
	"errors"
	"fmt"
	"strings"
)

// CheckPath refuses a path that cannot be, or should not be, the parent of the contenders' nodes.
func CheckPath(path string) error {
	if !strings.HasPrefix(path, "/") || path == "/" {
		return errors.New(`want an absolute path below the root, such as "/billing/leader"`)
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, unfit) {
			return fmt.Errorf("%q is not a valid node name", part)
		}
	}
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return errors.New("is reserved by ZooKeeper; choose another path")
	}
	return nil
}

// unfit reports whether a node name cannot, or should not, contain r.
func unfit(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
