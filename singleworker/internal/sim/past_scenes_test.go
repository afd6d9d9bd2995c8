package sim

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// pastTick has a run a tick again that it has run, because somebody asks for that. When it leaves,
// b must not find the request, and run the tick once more for it.
func pastTick(s *scene, b *breach) {
	s.brief = true
	owner, _ := s.begin(b, &breach{})
	time.Sleep(2 * time.Minute)
	err := s.Operate(s.t.Context(), func(client *admin.Client) error {
		past, err := client.History(s.t.Context(), job)
		if err == nil {
			_, err = client.Trigger(s.t.Context(), job, admin.TriggerOptions{Tick: past.Entries[0].Tick, Again: true})
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(session)
	owner.Leave()
	time.Sleep(2 * session)
}
