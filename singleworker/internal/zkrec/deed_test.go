package zkrec_test

import (
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestDeeds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 400)
	name := strings.Repeat("n", 128)
	for what, test := range map[string]struct {
		deed zkrec.Deed
		want string
	}{
		"all": {
			zkrec.Deed{Kind: "pause", Jobs: []string{"a"}, Where: "app-1", By: "alice", From: "root@vm", Reason: "db"},
			`{"schema":1,"kind":"pause","jobs":["a"],"where":"app-1","by":"alice","from":"root@vm","reason":"db"}`,
		},
		"by the one it is from": {zkrec.Deed{Kind: "set", By: "root@vm", From: "root@vm"}, `{"schema":1,"kind":"set","from":"root@vm"}`},
		"lines":                 {zkrec.Deed{Kind: "set", By: "a\nb", Reason: "\x1b[31m\xff\u202e"}, `{"schema":1,"kind":"set","by":"a?b","reason":"?[31m??"}`},
		"many jobs":             {zkrec.Deed{Kind: "submit", Jobs: []string{"a", "b", "c", "d", "e"}}, `{"schema":1,"kind":"submit","jobs":["a","b","c"],"more":2}`},
		"long reason": {
			zkrec.Deed{Kind: "set", Jobs: []string{"a"}, By: "al", Reason: long},
			`{"schema":1,"kind":"set","jobs":["a"],"by":"al","reason":"` + strings.Repeat("x", 237) + `..."}`,
		},
		"long names": {
			zkrec.Deed{Kind: "set", Jobs: []string{name, name}, By: long, From: "root@vm", Reason: long},
			`{"schema":1,"kind":"set","jobs":["` + name + `"],"more":1,"by":"` + strings.Repeat("x", 70) + `...","from":"root@vm","reason":"xxxxxxxxxxxxx..."}`,
		},
		"letters of many bytes": {
			zkrec.Deed{Kind: "set", Reason: strings.Repeat("é", 300)},
			`{"schema":1,"kind":"set","reason":"` + strings.Repeat("é", 130) + `..."}`,
		},
		"a name that JSON escapes": {zkrec.Deed{Kind: "set", Jobs: []string{strings.Repeat("<", 100)}}, `{"schema":1,"kind":"set","more":1}`},
	} {
		got := test.deed.Encode()
		if string(got) != test.want || len(got) > zkrec.MaxDeedBytes {
			t.Errorf("%s: %d bytes\n%s, want\n%s", what, len(got), got, test.want)
		}
		if _, err := zkrec.ParseDeed(got); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if d, err := zkrec.ParseDeed([]byte(`{"schema":1,"kind":"set","from":"root@vm"}`)); err != nil || d.By != "root@vm" {
		t.Errorf("by whom it is from: %+v, %v", d, err)
	}
	for _, data := range []string{"", "x", `{"schema":2}`} {
		if _, err := zkrec.ParseDeed([]byte(data)); err == nil {
			t.Errorf("%q is read", data)
		}
	}
}

func TestNamesOfDeeds(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("billing")
	for kind, want := range map[string]string{zkrec.DeedCancel: "/billing/_log/c", zkrec.DeedTrigger: "/billing/_log/a", zkrec.DeedStop: "/billing/_log/a", zkrec.DeedDeclare: "/billing/_log/d"} {
		if got := tree.NewDeed(zkrec.Deed{Kind: kind}); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
	for name, want := range map[string]int64{"c0000000012": 12, "d0000000013": 13, "a2147483647": 2147483647} {
		if letter, number, ok := zkrec.ParseDeedName(name); !ok || number != want || letter != name[:1] {
			t.Errorf("%s: %s, %d, %v", name, letter, number, ok)
		}
	}
	for _, name := range []string{"", "c", "x0000000001", "a9999999999"} {
		if _, _, ok := zkrec.ParseDeedName(name); ok {
			t.Errorf("%q is the name of a deed", name)
		}
	}
}
