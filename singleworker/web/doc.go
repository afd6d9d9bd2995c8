// Package web shows a group to its operators in a browser, and to programs over HTTP: what needs attention, jobs, runs over
// time, who owns what, instances, and how many ticks are to come. swctl ui serves it; an application can mount it in its
// own admin server:
//
//	pages, err := web.Handler(client, web.Options{Title: "billing"})
//	...
//	mux.Handle("/admin/jobs/", http.StripPrefix("/admin/jobs", pages))
//
// Everyone who reaches the handler sees all that package admin tells: schedules, arguments, errors, hosts. The handler does not ask
// who they are; the server that mounts it must.
//
// GET requests below api/v1/ are answered with the JSON documents of package admin/api:
//
//	api/v1/jobs                   JobList
//	api/v1/jobs/NAME              Job
//	api/v1/jobs/NAME/history      History
//	api/v1/jobs/NAME/log          RunLog, of Options.History; since=TIME, until=TIME, failed=true and n=100 select entries
//	api/v1/jobs/NAME/summary      RunLogSummary, of Options.History; since=TIME and until=TIME
//	api/v1/jobs/NAME/why?at=TIME  Explanation, of the last tick without a time, which is RFC 3339
//	api/v1/jobs/NAME/ticks?n=10   TickList, of the next ticks
//	api/v1/instances              InstanceList
//	api/v1/instances/ID           Instance
//	api/v1/events                 a stream of Event documents, as they happen
//
// The name of a shard, or of a job at an instance, is one segment of the path: report%2Fapp-1.
//
// With Options.AllowActions there are POST requests, with a form of by, reason, and the token, which may also be in a header
// "Authorization: Bearer TOKEN":
//
//	api/v1/jobs/NAME/trigger      TriggerResult
//	api/v1/jobs/NAME/pause        PauseResultList; for=24h in the form says for how long
//	api/v1/jobs/NAME/resume       PauseResultList; missed=once in the form runs the latest tick that was missed
//	api/v1/jobs/NAME/cancel       JobList; confirm=NAME in the form is the name once more
//	api/v1/instances/ID/drain     InstanceOrderResult
//	api/v1/instances/ID/enable    InstanceOrderResult
//
// Browsers send them from these pages only. by is recorded with the address that it came from.
//
// The stream is of server-sent events, whose ids are the cursors of admin.Watch: a client that comes back with the header
// Last-Event-ID, or since=CURSOR in its query, is sent what has happened since, once or twice. The event "reset" says that
// this is not known any more: read everything again. A client that does not keep up is cut.
//
// All viewers share what is read: however many they are, each thing is read at most once in Options.Period, and less often if
// that takes long. One watch serves all streams. Nothing is read while nobody looks.
package web
