package words

import (
	"fmt"
	"testing"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// However many instances own the shards, the column stays narrow.
func TestOwnerSummary(t *testing.T) {
	t.Parallel()
	var shards []admin.JobStatus
	for i := range 100 {
		shard := admin.JobStatus{State: admin.StateOwned, Owner: &admin.Owner{InstanceID: fmt.Sprintf("app-%d", i%7)}}
		if i%10 == 9 { // its owner is dead
			shard.State = admin.StateUnowned
		}
		shards = append(shards, shard)
	}
	if got, want := Owners(shards), "90/100 app-0(14) app-1(13) app-3(13) app-4(13) +3 more"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, shard := range []admin.JobStatus{{State: admin.StateUnowned}, {State: admin.StateInvalid}} {
		if got := Owners([]admin.JobStatus{shard}); got != "0/1" {
			t.Errorf("%s: %s, want 0/1", shard.State, got)
		}
	}
}
