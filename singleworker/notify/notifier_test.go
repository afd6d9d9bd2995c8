package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/notify"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

var errPaper = errors.New("out of paper")

// scene is a group in virtual time with an instance whose jobs fail or not, and senders of
// notifications.
type scene struct {
	*swtest.Cluster

	t       *testing.T
	one     *swtest.Instance
	failing atomic.Bool
	clock   wall.Clock // of the notifiers' machines
}

func inScene(t *testing.T, test func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.begin()
		test(s)
	})
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return &scene{t: t, Cluster: swtest.New(t, swtest.Config{SessionTimeout: 30 * time.Second})}
}

func (s *scene) begin() {
	s.t.Helper()
	s.one = s.Start("one", map[string]singleworker.Handler{"report": func(context.Context, *singleworker.Run) error {
		if s.failing.Load() {
			return errPaper
		}
		return nil
	}, "flaky": func(_ context.Context, run *singleworker.Run) error {
		if run.Attempt < 3 {
			return errPaper
		}
		return nil
	}}, singleworker.Job{Name: "report", Schedule: "0 * * * * ?"})
	s.AwaitOwned("report")
}

// connect opens a connection of nobody's.
func (s *scene) connect() *zkconn.Conn {
	s.t.Helper()
	conn, err := zkconn.Open(zkconn.Config{Servers: "zkdev:1", SessionTimeout: 30 * time.Second, Dial: s.Server().Dial}, func(zkconn.Event) {})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return conn
}

// place is a target that remembers its messages.
type place struct {
	mu       sync.Mutex
	messages []notify.Message
	// arrives is called when a message has arrived; it returns what Send does.
	arrives func(ctx context.Context) error
}

func (*place) Most() int { return 0 }

func (p *place) Send(ctx context.Context, m notify.Message) error {
	p.mu.Lock()
	p.messages = append(p.messages, m)
	arrives := p.arrives
	p.mu.Unlock()
	if arrives == nil {
		return nil
	}
	return arrives(ctx)
}

// items are the messages, with the sender: "n1: report failed".
func (p *place) items() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		for _, item := range m.Items {
			said, _, _ := strings.Cut(item.String(), ", since")
			all = append(all, m.Sender+": "+said)
		}
	}
	return all
}

func (p *place) set(arrives func(ctx context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrives = arrives
}

func (s *scene) want(p *place, want ...string) {
	s.t.Helper()
	if got := p.items(); !slices.Equal(got, want) {
		s.t.Errorf("said:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// notifier starts one. stop stops it and returns the error of Run.
func (s *scene) notifier(id string, targets map[string]notify.Sender, changes ...func(*notify.Config)) (n *notify.Notifier, stop func() error) {
	s.t.Helper()
	cfg := notify.Config{
		Group: admin.Config{
			Servers: "zkdev:1", ServerType: swtest.DefaultServerType, SessionTimeout: 30 * time.Second,
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := s.Server().Client(id).Dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return roomtest.Settle(conn), nil
			},
		},
		Targets: targets, ID: id, Logger: slog.New(slog.DiscardHandler),
	}
	var names []string
	for name := range targets {
		names = append(names, name)
	}
	cfg.Rules = []notify.Rule{{To: names}}
	cfg.PingEvery = time.Minute
	for _, change := range changes {
		change(&cfg)
	}
	n, err := notify.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(wall.Off(context.Background(), s.clock))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = n.Run(ctx)
	}()
	stop = func() error {
		cancel()
		<-ended
		return err
	}
	s.t.Cleanup(func() { _ = stop() })
	time.Sleep(10 * time.Second)
	return n, stop
}

func (s *scene) submit(j job.Job) { s.Submit(j) }

// failed and recovered let the job run badly, or well, for some minutes.
func (s *scene) runs(failing bool, minutes int) {
	s.failing.Store(failing)
	time.Sleep(time.Duration(minutes) * time.Minute)
}

func TestOneInstanceTells(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		ops := &place{}
		one, stop := s.notifier("n1", map[string]notify.Sender{"ops": ops})
		two, _ := s.notifier("n2", map[string]notify.Sender{"ops": ops})
		s.runs(true, 5)
		s.want(ops, "n1: report failed")
		if !one.Stats().Sending || two.Stats().Sending {
			t.Errorf("sending: n1 %v, n2 %v; want n1 alone", one.Stats().Sending, two.Stats().Sending)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		s.runs(true, 5)
		s.want(ops, "n1: report failed")
		s.runs(false, 2)
		s.want(ops, "n1: report failed", "n2: report recovered after 10 failed runs")
		s.runs(false, 5)
		if sent := two.Stats().Targets["ops"].Sent; sent != 1 || len(ops.items()) != 2 {
			t.Errorf("%d sent, %q", sent, ops.items())
		}
	})
}

// A sender that takes over from a newer version keeps what that one has written, at every level of
// the records that it writes over.
func TestUnknownFieldsSurviveASender(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		targets := map[string]notify.Sender{"ops": &place{}}
		_, stop := s.notifier("n1", targets)
		s.runs(true, 3)
		if err := stop(); err != nil {
			t.Error(err)
		}
		conn, head := s.connect(), zkrec.NewTree(swtest.DefaultServerType).Notices()
		children, _, err := conn.Children(s.t.Context(), head)
		paths := []string{head}
		for _, child := range children {
			paths = append(paths, head+"/"+child)
		}
		more := strings.NewReplacer(`{"schema"`, `{"of":"all","schema"`, `{"created"`, `{"of":"slot","created"`, `{"kind"`, `{"of":"it","kind"`)
		written := make(map[string]string)
		for _, path := range paths {
			data, stat, readErr := conn.Get(s.t.Context(), path)
			if newer := more.Replace(string(data)); newer != string(data) {
				written[path] = newer
				_, writeErr := conn.Multi(s.t.Context(), zkconn.SetOp(path, []byte(newer), stat.Version))
				err = errors.Join(err, readErr, writeErr)
			}
		}
		s.notifier("n2", targets)
		s.runs(true, 2)
		var kept []int
		for path, newer := range written {
			data, _, readErr := conn.Get(s.t.Context(), path)
			err = errors.Join(err, readErr)
			n := strings.Count(string(data), `"of":`)
			if kept = append(kept, n); n != strings.Count(newer, `"of":`) || string(data) == newer {
				t.Errorf("%s:\n%s\nis written over with\n%s", path, newer, data)
			}
		}
		slices.Sort(kept)
		if want := []int{1, 3}; err != nil || !slices.Equal(kept, want) {
			t.Errorf("%v fields kept in the records, %v; want %v: in the head, and in a part, a slot and an episode", kept, err, want)
		}
	})
}

// The sender dies before it tells, between that and the record, and after that.
func TestHeirTellsWhatTheSenderDidNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		die  func(s *scene, cut func(), ops *place)
		want []string
	}{
		{"before it tells", func(_ *scene, cut func(), _ *place) {
			time.Sleep(63*time.Second - time.Duration(time.Now().UnixNano()%int64(time.Minute))) // 3 s after a run; news are gathered for 5 s
			cut()
		}, []string{"n2: report failed"}},
		{"before it records", func(_ *scene, cut func(), ops *place) {
			ops.set(func(context.Context) error { cut(); ops.set(nil); return nil })
		}, []string{"n1: report failed", "n2: report failed"}},
		{"after it has recorded", func(_ *scene, cut func(), _ *place) {
			time.Sleep(2 * time.Minute)
			cut()
		}, []string{"n1: report failed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inScene(t, func(s *scene) {
				ops := &place{}
				s.notifier("n1", map[string]notify.Sender{"ops": ops})
				s.notifier("n2", map[string]notify.Sender{"ops": ops})
				s.failing.Store(true)
				c.die(s, s.Server().Client("n1").Partition, ops)
				time.Sleep(5 * time.Minute)
				s.want(ops, c.want...)
				if len(ops.messages) == 2 && ops.messages[0].Items[0].ID != ops.messages[1].Items[0].ID {
					t.Errorf("the same news have the ids %s and %s", ops.messages[0].Items[0].ID, ops.messages[1].Items[0].ID)
				}
				s.Server().Client("n1").Heal()
				time.Sleep(5 * time.Minute)
				s.want(ops, c.want...)
				s.runs(false, 3)
				if got := ops.items(); len(got) != len(c.want)+1 || !strings.Contains(got[len(c.want)], "report recovered") {
					t.Errorf("said %q", got)
				}
			})
		})
	}
}

// A target is down for an hour; another one is told meanwhile.
func TestDeadTargetDelaysNobody(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		ops, dead := &place{}, &place{arrives: func(context.Context) error { return errPaper }}
		n, _ := s.notifier("n1", map[string]notify.Sender{"ops": ops, "dead": dead})
		for range 6 {
			s.runs(true, 5)
			s.runs(false, 5)
		}
		if got := len(ops.items()); got != 12 {
			t.Errorf("the other one was told %d times, want 12", got)
		}
		stats := n.Stats().Targets["dead"]
		if stats.Sent != 0 || stats.Failed < 10 || stats.Failed > 30 || !errors.Is(stats.Err, errPaper) {
			t.Errorf("%+v; want some 16 attempts", stats)
		}
		dead.mu.Lock()
		dead.messages, dead.arrives = nil, nil
		dead.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if got := dead.items(); len(got) != 8 || len(dead.messages) != 1 || n.Stats().Dropped != 2 {
			t.Errorf("then it was told %q in %d messages, %d dropped; want 4 episodes, and 2 dropped", got, len(dead.messages), n.Stats().Dropped)
		}
	})
}

// A Sender that panics or hangs is one that does not answer.
func TestSenderPanicsOrHangs(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		ops := &place{arrives: func(context.Context) error { panic("glass") }}
		slow := &place{arrives: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
		n, stop := s.notifier("n1", map[string]notify.Sender{"ops": ops, "slow": slow})
		s.runs(true, 2)
		for name, stats := range n.Stats().Targets {
			if stats.Failed == 0 || stats.Err == nil {
				t.Errorf("%s: %+v", name, stats)
			}
		}
		ops.set(nil)
		s.runs(true, 2)
		if n.Stats().Targets["ops"].Sent != 1 {
			t.Errorf("%+v", n.Stats())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Attempts that are retried are told only if the last one fails, too.
func TestRetriesAreNotTold(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		ops := &place{}
		s.notifier("n1", map[string]notify.Sender{"ops": ops})
		s.submit(job.Job{Name: "flaky", Schedule: "0 */10 * * * ?", Retries: 2, Backoff: time.Minute})
		time.Sleep(25 * time.Minute)
		s.want(ops)
		s.submit(job.Job{Name: "hopeless", Handler: "flaky", Schedule: "0 */10 * * * ?", Retries: 1, Backoff: time.Minute})
		time.Sleep(25 * time.Minute)
		s.want(ops, "n1: hopeless failed")
	})
}

// A job names a target itself. That is told from its submission on, whatever the rules of the group
// say.
func TestJobNamesTargets(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		ops, dev := &place{}, &place{}
		targets := map[string]notify.Sender{"ops": ops, "dev": dev}
		onlyOps := func(cfg *notify.Config) { cfg.Rules = []notify.Rule{{Jobs: "report", To: []string{"ops"}}} }
		_, stop := s.notifier("n1", targets, onlyOps)
		s.notifier("n2", targets, onlyOps)
		s.submit(job.Job{Name: "own", Handler: "report", Schedule: "30 * * * * ?", Notify: map[string][]job.NotifyKind{"dev": {notify.Failed}, "gone": {}}})
		s.runs(true, 2)
		s.want(ops, "n1: report failed")
		s.want(dev, "n1: own failed")
		s.runs(false, 2)
		if err := stop(); err != nil {
			t.Error(err)
		}
		s.runs(true, 2) // the heir has read what the job says
		s.want(dev, "n1: own failed", "n2: own failed")
	})
}

// pings are those that a service has received.
type pings struct{ all, wrong atomic.Int64 }

func (p *pings) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.all.Add(1); p.wrong.Add(-1) >= 0 {
		return nil, errPaper
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// The sender pings as long as an instance lives, and when a job has succeeded.
func TestPings(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		group, report, other := &pings{}, &pings{}, &pings{}
		with := func(cfg *notify.Config) {
			cfg.Targets, cfg.Rules = nil, nil
			cfg.Pings = []notify.Ping{
				{URL: "https://hc.example.com/group", Transport: group}, {URL: "https://hc.example.com/report", Job: "report", Transport: report},
				{URL: "https://hc.example.com/other", Job: "other", Transport: other},
			}
		}
		n, stop := s.notifier("n1", nil, with)
		s.notifier("n2", nil, with)
		report.wrong.Store(2) // it is tried again
		s.runs(false, 10)
		if a, b, c := group.all.Load(), report.all.Load(), other.all.Load(); a < 10 || a > 11 || b != 12 || c != 0 || n.Stats().PingsFailed != 0 {
			t.Errorf("%d pings of the group, %d of the job, %d of another one; failed: %d", a, b, c, n.Stats().PingsFailed)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		group.all.Store(0)
		report.all.Store(0)
		s.runs(true, 10)
		if a, b := group.all.Load(), report.all.Load(); a < 9 || a > 11 || b > 1 {
			t.Errorf("%d pings of the group, %d of the job, which fails", a, b)
		}
		if err := s.one.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		group.all.Store(0)
		time.Sleep(10 * time.Minute)
		if got := group.all.Load(); got != 0 {
			t.Errorf("nobody lives, and %d pings", got)
		}
	})
}

// A run that hangs is told while it does.
func TestHungRunIsTold(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		ops := &place{}
		s.notifier("n1", map[string]notify.Sender{"ops": ops})
		done := make(chan struct{})
		s.Start("two", map[string]singleworker.Handler{"slow": func(ctx context.Context, _ *singleworker.Run) error {
			select {
			case <-done:
			case <-ctx.Done():
			}
			return nil
		}}, singleworker.Job{Name: "slow", Schedule: "0 */2 * * * ?"})
		time.Sleep(10 * time.Minute)
		s.want(ops, "n1: slow hung")
		close(done)
		time.Sleep(3 * time.Minute)
		s.want(ops, "n1: slow hung", "n1: slow is no longer hung")
	})
}

// A run that is lost with its group is late: nobody runs the job, and a Notifier outside of the
// group tells. A sender whose clock is wrong tells of the jobs that are late, and of no others.
func TestSenderWhoseClockIsWrong(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		inScene(t, func(s *scene) {
			s.clock = func() time.Duration { return off }
			s.submit(job.Job{Name: "nobody", Schedule: "0 0 * * * ?"})
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(55 * time.Minute)))
			ops := &place{}
			s.notifier("n1", map[string]notify.Sender{"ops": ops})
			time.Sleep(5 * time.Minute)
			s.want(ops)
			time.Sleep(4 * time.Minute)
			s.want(ops, "n1: nobody late")
		})
	}
}

func TestLateJobIsTold(t *testing.T) {
	t.Parallel()
	inScene(t, func(s *scene) {
		ops := &place{}
		s.notifier("n1", map[string]notify.Sender{"ops": ops})
		s.submit(job.Job{Name: "orphan", Schedule: "0 * * * * ?", AlarmAfter: 2 * time.Minute})
		time.Sleep(5 * time.Minute)
		s.want(ops, "n1: orphan late")
		s.Cancel("orphan")
		time.Sleep(2 * time.Minute)
		s.want(ops, "n1: orphan late", "n1: orphan was canceled")
		if at := ops.messages[1].Items[0].At; time.Since(at).Abs() > 3*time.Minute {
			t.Errorf("it is told to have been canceled at %v, and it is %v", at, time.Now())
		}
	})
}

// lines are a log's.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// A foreign write to the records of messages, or a copy from another ensemble, ends no sender and
// silences no job. It is said once.
func TestRecordsThatNoSenderWrites(t *testing.T) {
	t.Parallel()
	const forever = `{"schema":1,"slots":{"report":{"episodes":[{"kind":"late","id":"x","tick":9223372036854775807}]}}}`
	for _, c := range []struct{ head, part string }{
		{`{"schema":1,"term":9223372036854775807,"cursor":7}`, ""},
		{`{"schema":1,"cursor":-1}`, ""},
		{`{"schema":1,"cursor":9223372036854775807}`, ""},
		{"garbage", "garbage"},
		{"", `{"schema":1,"slots":{"y":{"episodes":[null]}}}`},
		{"", forever},
	} {
		inScene(t, func(s *scene) {
			conn := s.connect()
			head := zkrec.NewTree(swtest.DefaultServerType).Notices()
			ops := []zkconn.Op{zkconn.CreateOp(head, []byte(c.head))}
			for k := range 64 {
				ops = append(ops, zkconn.CreateOp(fmt.Sprintf("%s/%d", head, k), []byte(c.part)))
			}
			if _, err := conn.Multi(s.t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			place, log := &place{}, &lines{}
			logged := func(cfg *notify.Config) { cfg.Logger = slog.New(slog.NewTextHandler(log, nil)) }
			_, stop := s.notifier("n1", map[string]notify.Sender{"ops": place}, logged)
			s.runs(true, 2)
			s.want(place, "n1: report failed")
			if err := stop(); err != nil {
				t.Error(err)
			}
			s.notifier("n2", map[string]notify.Sender{"ops": place}, logged)
			s.runs(false, 2)
			s.want(place, "n1: report failed", "n2: report recovered after 2 failed runs")
			for path, record := range map[string]string{head: c.head, head + "/7": c.part} {
				if n := log.count("cannot be read: a new one begins\" path=" + path + " "); record != "" && n != 1 || record == "" && n != 0 {
					t.Errorf("%s %s is said %d times:\n%.3000s", path, record, n, log.text.String())
				}
			}
		})
	}
}
