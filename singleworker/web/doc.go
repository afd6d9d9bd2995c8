// Package web shows a group to its operators in a browser, and to programs over HTTP: problems that
// need attention, jobs, runs over time, who owns what, instances, and how many ticks are to come.
// swctl ui serves it, and an application can mount it in its own admin server:
//
//	pages, err := web.Handler(client, web.Options{Title: "billing", Hosts: []string{"jobs.example.org"}})
//	...
//	mux.Handle("/admin/jobs/", http.StripPrefix("/admin/jobs", pages))
//
// The server that mounts it must have timeouts, as swctl ui has: ReadHeaderTimeout (5 s),
// ReadTimeout (15 s), WriteTimeout (45 s) and IdleTimeout (2 min), because slow clients hold
// connections, though no turns. Streams of events set their own.
//
// Everyone who reaches the handler sees all that package admin tells: schedules, arguments, errors,
// hosts. The handler does not ask who they are. The server that mounts it must.
//
// GET requests below api/v1/ are answered with the JSON documents of package admin/api:
//
//	api/v1/jobs                   JobList
//	api/v1/jobs/NAME              Job
//	api/v1/jobs/NAME/history      History
//	api/v1/jobs/NAME/log          RunLog of the History: since=TIME, until=TIME, failed=true, n=100
//	api/v1/jobs/NAME/summary      RunLogSummary, of Options.History; since=TIME and until=TIME
//	api/v1/jobs/NAME/why?at=TIME  Explanation, of the last tick without a time, which is RFC 3339
//	api/v1/jobs/NAME/ticks?n=10   TickList, of the next ticks
//	api/v1/instances              InstanceList
//	api/v1/instances/ID           Instance
//	api/v1/doctor                 CheckList
//	api/v1/log                    Log, of who did what
//	api/v1/events                 a stream of Event documents, as they happen
//
// The name of a shard, or of a job at an instance, is one segment of the path: report%2Fapp-1.
//
// With Options.AllowActions there are POST requests, with a form of by, reason, and the token,
// which may also be in a header "Authorization: Bearer TOKEN". With Options.Authorize the form
// needs a reason only:
//
//	api/v1/jobs/NAME/trigger      TriggerResult; tick=TIME runs that one, again=true even if it is ok
//	api/v1/jobs/NAME/stop-run     StopResult, after five seconds at most
//	api/v1/jobs/NAME/pause        PauseResultList; for=24h in the form says for how long
//	api/v1/freeze                 FreezeResult; for=24h as of a pause, confirm=freeze
//	api/v1/unfreeze               FreezeResult; missed=once as of a resume, confirm=unfreeze
//	api/v1/jobs/NAME/resume       PauseResultList; missed=once runs the latest tick that was missed
//	api/v1/jobs/NAME/submit       SubmitResult; spec=JSON is the job, seen=ETAG the one it replaces
//	api/v1/jobs/NAME/cancel       JobList; confirm=NAME in the form is the name once more
//	api/v1/instances/ID/drain     InstanceOrderResult
//	api/v1/instances/ID/enable    InstanceOrderResult
//
// There are PUT requests that create or replace a job, with the token in that header, and by and
// reason in the query:
//
//	api/v1/jobs/NAME              SubmitResult; with dry_run=true in the query nothing is written
//
// The body is the Job document that GET answers with, of which apiVersion, kind and spec are read.
// The request must have a condition: "If-Match:" with the ETag of that GET, "If-None-Match: *"
// for a job that does not exist, or "If-Match: *" for whatever is there. The answer has the new
// ETag. Its status is 412 if the job is not as the request says, and 428 without one.
//
// Browsers send them from these pages only. by and reason are in the log. trigger, pause and drain
// are recorded with them and with the address that they came from.
//
// The stream is of server-sent events, whose ids are the cursors of admin.Watch: a client that
// comes back with the header Last-Event-ID, or since=CURSOR in its query, is sent the events since,
// once or twice. The event "reset" says that this is not known any more: read everything again. A
// client that does not keep up is cut.
//
// All viewers share readings: however many they are, each thing is read at most once in
// Options.Period, and less often if that takes long, or the group is large and at rest. All times
// that are asked for of a job, or of a page of the timeline, are answered from one reading. One
// watch serves all streams. Nothing is read while nobody looks.
//
// One address, or 64 bits of IPv6, has at most 16 requests answered at once. Things beside the
// group as a whole are read for it with 120 requests to ZooKeeper, and one more each 150 ms. A job
// takes three. Beyond that it waits for up to two seconds or gets status 429, but whoever keeps one
// page open never does: the more requests a thing takes, the longer it is kept, up to ten seconds.
// Behind a proxy that Options.Proxies does not name, all its clients are one address. If 256
// streams are open, the address that has most makes room for others. A browser that asks for
// another site gets status 403, unless it opens a whole tab, as links in mails do.
package web
