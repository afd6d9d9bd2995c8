package cmdline

import (
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"submit", "cancel", "list", "show", "next", "instances", "version", "help", "レポート"}
	for text, want := range map[string]string{
		"sbumit": "submit", "cancle": "cancel", "canel": "cancel", "lst": "list", "lsit": "list", "shows": "show",
		"instance": "instances", "instnace": "instances", "nex": "next", "versio": "version",
		"frob": "", "": "", "x": "", "frobnicate": "", "text": "next", "レポト": "レポート", "レ": "",
	} {
		if got := Nearest(text, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", text, got, want)
		}
	}
}
