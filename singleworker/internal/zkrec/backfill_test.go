package zkrec_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/quick"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// TestBackfillIsTakenApart: the ticks come off a backfill as they were added, each with an ID of
// its own that sorts after those before, also if it is read back in between.
func TestBackfillIsTakenApart(t *testing.T) {
	t.Parallel()
	check := func(steps []uint8) bool {
		var want []zkrec.Request
		all := zkrec.Request{Kind: zkrec.RequestBackfill, By: "ann"}
		tick := int64(1e12)
		for _, step := range steps {
			tick += 1 + int64(step%3)*60_000
			one := zkrec.Request{
				Kind: zkrec.RequestPast, By: "ann", Tick: tick, Past: history.PastMissed, Attempt: 2 + int(step/128), Failures: int(step / 64 % 2),
			}
			want = append(want, one)
			all.Backfill.Add(one)
		}
		if len(steps) == 0 {
			return true
		}
		if all.Backfill.From != want[0].Tick || all.Backfill.To != tick || all.Backfill.Total != len(want) || all.Backfill.Left() != len(want) {
			t.Errorf("%+v", all.Backfill)
		}
		last := "id"
		for i, one := range want {
			read, err := zkrec.ParseRequest(all.Encode())
			if err != nil {
				t.Fatal(err)
			}
			read.Schema = 0
			if !read.Names(one.Tick) || read.Names(one.Tick-1) && (i == 0 || one.Tick-1 != want[i-1].Tick) || !reflect.DeepEqual(read, all) {
				t.Errorf("%d: read %+v, wrote %+v", i, read, all)
			}
			id, next, rest := read.Next("id")
			if id <= last || zkrec.BackfillOf(id) != "id" || !reflect.DeepEqual(next, one) || rest.Backfill.Left() != len(want)-i-1 || read.Backfill.Left() != len(want)-i {
				t.Fatalf("%d: took %s %+v, want %+v, and left %+v", i, id, next, one, rest)
			}
			all, last = rest, id
		}
		return len(all.Backfill.Rows) == 0
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
	if of := zkrec.BackfillOf("0198c600-6f9a"); of != "" {
		t.Errorf("of %q", of)
	}
}

// TestRegularTicksAreFewRows: 10,000 ticks of a regular schedule fit in a request.
func TestRegularTicksAreFewRows(t *testing.T) {
	t.Parallel()
	var r zkrec.Request
	r.Kind = zkrec.RequestBackfill
	for i := range int64(zkrec.MaxBackfill) {
		r.Backfill.Add(zkrec.Request{Tick: 1e12 + i*1000, Past: history.PastSkipped, Attempt: 1})
	}
	if n := len(r.Encode()); n > 400 {
		t.Errorf("%d bytes", n)
	}
	if _, err := zkrec.ParseRequest(r.Encode()); err != nil {
		t.Error(err)
	}
}

func TestBackfillsThatNobodyWrites(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{
		`null`, `[]`, `[{"tick":1,"count":1,"attempt":1}]`, `[{"tick":0,"count":1,"past":"missed","attempt":1}]`,
		`[{"tick":5,"count":0,"past":"missed","attempt":1}]`, `[{"tick":5,"count":2,"past":"missed","attempt":1}]`,
		`[{"tick":5,"count":2,"every":-1,"past":"missed","attempt":1}]`, `[{"tick":5,"count":1,"past":"missed","attempt":1,"failures":1}]`,
		`[{"tick":5,"count":4,"every":1,"past":"missed","attempt":1}]`, `[{"tick":5,"count":1,"past":"missed"}]`,
		`[{"tick":5,"count":1,"past":"missed","attempt":1},{"tick":5,"count":1,"past":"missed","attempt":1}]`,
		`[{"tick":5,"count":2,"every":9223372036854775807,"past":"missed","attempt":1}]`,
		`[{"tick":253402300799999,"count":2,"every":1,"past":"missed","attempt":1}]`,
	} {
		text := `{"schema":1,"kind":"backfill","backfill":{"total":3,"rows":` + rows + `}}`
		if r, err := zkrec.ParseRequest([]byte(text)); err == nil || !strings.Contains(err.Error(), "request") {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
	if r, err := zkrec.ParseRequest([]byte(`{"schema":1,"kind":"run","backfill":{"rows":[{"tick":5}]}}`)); err != nil || r.Names(5) {
		t.Errorf("%+v, %v", r, err)
	}
}
