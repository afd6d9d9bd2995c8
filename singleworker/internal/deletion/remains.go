package deletion

import (
	"context"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// remains are the last traces of a job that is canceled, as it was read.
type remains struct {
	ops      []zkconn.Op      // which create its nodes
	versions map[string]int32 // of the nodes that were read: with another version it would be something else
}

// version is the one with which a node is deleted.
func (r remains) version(path string) int32 {
	if version, read := r.versions[path]; read {
		return version
	}
	return zkconn.AnyVersion
}

// keep reads the remains of a job. A node that may not be read counts as empty.
func (d *Deletion) keep(ctx context.Context, data []byte, stat zkconn.Stat, spec zkrec.Spec) (kept remains, err error) {
	pages := d.Tree.HistoryPages(d.Job)
	paths := append([]string{d.Tree.Register(d.Job), d.Tree.Tick(d.Job)}, append(pages, d.Tree.Versions(d.Job))...)
	results := d.Conn.ReadMany(ctx, zkconn.ReadsOf(paths...))
	kept.versions = map[string]int32{d.Tree.Job(d.Job): stat.Version}
	for i, r := range results {
		switch {
		case zkconn.IsUnknown(r.Err):
			return remains{}, r.Err
		case r.Err == nil && i < 2: // each write of the history writes the tick record
			kept.versions[paths[i]] = r.Stat.Version
		}
	}
	turned, _ := zkrec.ParseSwitch(results[0].Data) // one that cannot be read says nothing
	record := zkrec.Canceled{Spec: data, Switch: turned.WrittenAt(results[0].Stat.Mtime).Encode(), Deed: d.Deed.Encode()}
	var past zkrec.Past
	former := results[len(results)-1]
	if versions, err := zkrec.ParseVersions(former.Data, former.Stat.Mtime); err == nil && len(versions.List) > 0 {
		past.Versions = versions.Encode()
	}
	if spec.ActiveLayout().Shards == 0 && !spec.Job.Everywhere {
		record.History = results[2].Stat.Czxid
		if last, err := zkrec.ParseTick(results[1].Data, results[1].Stat.Mtime); err == nil {
			record.Watermark = last.Watermark
		}
		past.Tick = results[1].Data
		for k, page := range results[2 : 2+len(pages)] {
			if len(page.Data) > 0 {
				past.Pages = append(append(past.Pages, make([]zkrec.Kept, k-len(past.Pages))...), page.Data)
			}
		}
	}
	canceled, withPast := d.Tree.NewCanceled(d.Job, stat.Czxid)
	kept.ops = []zkconn.Op{zkconn.CreateSequentialOp(canceled, record.Encode())}
	if !past.IsEmpty() {
		kept.ops = append(kept.ops, zkconn.CreateSequentialOp(withPast, past.Encode()))
	}
	return kept, nil
}
