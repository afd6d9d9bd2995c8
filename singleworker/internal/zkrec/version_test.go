package zkrec_test

import (
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	inOrder := []string{
		"0", "0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
		"1.0.0", "1.0.0.1", "1.9", "v1.10.0", "2-5-gabc", "v2", "20261122.3", "20261122.10", "20261123",
	}
	sign := func(n int) int { return min(1, max(-1, n)) }
	for i, a := range inOrder {
		if err := zkrec.CheckVersion(a); err != nil {
			t.Errorf("%s: %v", a, err)
		}
		for k, b := range inOrder {
			if got, ok := zkrec.CompareVersions(a, b); !ok || sign(got) != sign(i-k) {
				t.Errorf("%s and %s: %d, %v; want %d", a, b, got, ok, sign(i-k))
			}
		}
	}
	for a, b := range map[string]string{"1.2.0": "v1.2", "1.0": "1.0.0+build.7", "2-rc.01": "2-rc.1", "v1": "v1+a"} {
		if got, ok := zkrec.CompareVersions(a, b); !ok || got != 0 {
			t.Errorf("%s and %s: %d, %v; want them to be equal", a, b, got, ok)
		}
	}
	for _, none := range []string{"", "devel", "3f9c2ab", "1.", ".1", "v", "1.2-", "1 2", "1\n", strings.Repeat("1", 19)} {
		if got, ok := zkrec.CompareVersions(none, "1"); ok {
			t.Errorf("%q is compared: %d", none, got)
		}
		if err := zkrec.CheckVersion(none); (err == nil) != (none == "") {
			t.Errorf("CheckVersion(%q) = %v", none, err)
		}
	}
	if zkrec.CheckVersion("1-"+strings.Repeat("x", 99)) == nil {
		t.Error("a version of 101 bytes is accepted")
	}
}
