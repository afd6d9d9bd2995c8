package chance_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/chance"
)

// seeded draws the same for the same purpose.
var seeded = &chance.Source{Draw: func(purpose string) *rand.ChaCha8 {
	return rand.NewChaCha8([32]byte{byte(len(purpose))})
}}

func TestJitterIsBetweenHalfAndAll(t *testing.T) {
	t.Parallel()
	for _, s := range []*chance.Source{nil, seeded} {
		for d := range 100 * time.Nanosecond {
			if j := s.Jitter("jitter")(d); j < d/2 || j > d {
				t.Errorf("%d of %d", j, d)
			}
		}
	}
}

func TestSourceIsOfAContext(t *testing.T) {
	t.Parallel()
	// drawn is an ID and a jitter for a purpose.
	type drawn struct {
		id     string
		jitter time.Duration
	}
	draw := func(s *chance.Source, purpose string) drawn {
		return drawn{s.ID(purpose), s.Jitter(purpose)(time.Hour)}
	}
	machine := chance.Of(t.Context())
	if one, two := draw(machine, "a"), draw(machine, "a"); machine != nil || one.id == two.id {
		t.Errorf("without a source: %v, and then %v", one, two)
	}
	s := chance.Of(chance.From(t.Context(), seeded))
	one, two, other := draw(s, "a"), draw(s, "a"), draw(s, "aa")
	if s != seeded || one != two || one.id == other.id || one.jitter == other.jitter || uuid.Validate(one.id) != nil {
		t.Errorf("with a source: %v, then %v, and %v for another purpose", one, two, other)
	}
}
