package lease

import (
	"slices"
	"strings"
)

// crowd is the instances that can run a slot. There is one for all slots that the same instances
// can run: of thousands of slots and dozens of instances, most have the same.
type crowd struct{ sids []string }

// maxCrowds is how many crowds are kept before those that no slot has are dropped.
const maxCrowds = 1000

// crowds are all crowds by their names.
type crowds map[string]*crowd

// of returns the crowd of these instances. A slot's crowd is never dropped.
func (c crowds) of(sids []string, slots map[Slot]*slot) *crowd {
	key := strings.Join(sids, "\x00")
	if known := c[key]; known != nil {
		return known
	}
	if len(c) >= maxCrowds {
		clear(c)
		for _, s := range slots {
			if s.able != nil {
				c[strings.Join(s.able.sids, "\x00")] = s.able
			}
		}
	}
	added := &crowd{slices.Clone(sids)}
	c[key] = added
	return added
}
