package admin

import (
	"errors"
	"testing"

	"github.com/swjobs/singleworker/singleworker/invalid"
)

func TestForeign(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.multi(
			zkcreate("/other", nil), zkcreate("/other/b", []byte("class B")), zkcreate("/other/b/config", []byte("cron: x")),
			zkcreate("/other/a", nil), zkcreate("/other/a/leader", nil),
		)
		nodes, err := w.c.Foreign(w.Context(), "other", "config")
		w.must(err)
		if len(nodes) != 2 || nodes[0].Name != "a" || nodes[0].Found || string(nodes[1].Data) != "class B" || string(nodes[1].Below) != "cron: x" || !nodes[1].Found {
			t.Errorf("read %+v", nodes)
		}
		if _, err := w.c.Foreign(w.Context(), "/absent", "config"); !errors.Is(err, ErrNotFound) {
			t.Errorf("of a node that is not there: %v", err)
		}
		for _, path := range []string{"", "/", "a//b", "../a", "a/", "a\x00b"} {
			if _, err := w.c.Foreign(w.Context(), path, "config"); !errors.As(err, new(*invalid.FieldError)) {
				t.Errorf("%q: %v", path, err)
			}
		}
	})
}
