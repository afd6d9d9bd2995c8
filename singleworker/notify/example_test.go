package notify_test

import (
	"context"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/notify"
)

// The code of GUIDE.md, so that it is compiled.
func _(ctx context.Context, servers, auth string, hookURL, hookKey notify.Secret) error {
	n, err := notify.New(notify.Config{
		Group:   admin.Config{Servers: servers, ServerType: "billing", Auth: auth},
		Targets: map[string]notify.Sender{"ops": &notify.Webhook{URL: hookURL, Key: hookKey}},
		Rules: []notify.Rule{
			{Jobs: "report*", To: []string{"ops"}},
			{Jobs: "sync-*", On: []notify.Kind{notify.Failed, notify.Recovered}, After: 3, To: []string{"ops"}},
		},
	})
	if err != nil {
		return err
	}
	return n.Run(ctx) // beside Manager.Run
}
