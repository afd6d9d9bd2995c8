package chaos

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/swtest/txns"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// The page is drawn to this scale, in pixels.
const (
	perSecond  = 14.0
	laneHeight = 16.0
	headHeight = 16.0
)

// memberColors are the owners' colors, by member.
var memberColors = []string{"#a6cee3", "#b2df8a", "#fdd49e", "#cab2d6", "#f7b6d2"}

// Page is the template's data.
type page struct {
	Seed                    uint64
	Length, Minutes, Began  string
	Members, Servers        int
	Table                   string
	Violations              []pageViolation
	Owners                  []pageOwner
	Lanes                   []pageLane
	Grid                    []pageSecond
	Shapes                  []pageShape
	Marks                   []pageMark
	Faults, Excused, Logged []string
	Losses, Followed        []string // what ZooKeeper has lost, and what follows from that
	Width, Height           float64
	began                   time.Duration
	ended                   time.Duration
	lane                    map[string]float64 // y, by name
}

type pageViolation struct {
	Second   int
	At, Text string
}

type pageOwner struct{ Name, Color string }

type pageLane struct {
	Name  string
	Bold  bool
	TextY float64
}

type pageSecond struct {
	Second int
	X      float64
}

type pageShape struct {
	X, Y, W, H  float64
	Fill, Title string
}

type pageMark struct {
	X, Y  float64
	Title string
}

// drawPage returns the page of a run.
func (j *judge) drawPage(seed uint64, length time.Duration, notes map[*deed]string) ([]byte, error) {
	p := &page{
		Seed: seed, Length: length.String(), Minutes: fmt.Sprintf("%g", length.Minutes()), Began: j.clock.time(j.Began).UTC().Format(time.RFC3339),
		Members: instances, Servers: j.Servers, Table: j.figures().String(), began: j.Began, ended: j.Ended, lane: make(map[string]float64),
	}
	p.Width = perSecond*(p.ended-p.began).Seconds() + 20
	for second := 0; float64(second)*perSecond < p.Width; second += 10 {
		p.Grid = append(p.Grid, pageSecond{second, float64(second) * perSecond})
	}
	for k, color := range memberColors {
		p.Owners = append(p.Owners, pageOwner{memberName(k), color})
	}
	p.addLanes(j)
	p.addFaults(j, notes)
	p.addOwners(j)
	p.addRuns(j)
	p.addSkipped(j)
	for _, v := range j.found {
		p.Violations = append(p.Violations, pageViolation{p.second(v.At) / 10 * 10, p.at(v.At), v.String()})
		p.Marks = append(p.Marks, pageMark{p.x(v.At), cmp.Or(p.lane[v.Slot], headHeight) + 13, v.String()})
	}
	for _, v := range j.excused {
		p.Excused = append(p.Excused, p.at(v.At)+" "+v.String())
	}
	p.Losses = j.losses()
	for _, v := range j.followed {
		p.Followed = append(p.Followed, p.at(v.At)+" "+v.String())
	}
	p.Logged = j.complaints()
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, p)
	return out.Bytes(), err
}

func memberName(k int) string { return fmt.Sprintf("i%d", k+1) }

func (p *page) x(at time.Duration) float64 {
	return float64(int(10*perSecond*max(0, at-p.began).Seconds())) / 10
}

func (p *page) second(at time.Duration) int { return int((at - p.began).Seconds()) }

func (p *page) at(at time.Duration) string {
	return fmt.Sprintf("%7.2f s", (at - p.began).Seconds())
}

// addLanes has one lane per member, server and slot, and one for operators.
func (p *page) addLanes(j *judge) {
	y := headHeight
	add := func(name string, bold bool) {
		p.lane[name] = y
		p.Lanes = append(p.Lanes, pageLane{name, bold, y + 12})
		y += laneHeight
	}
	for k := range instances {
		add(memberName(k), true)
	}
	for k := range j.Servers {
		add(serverName(k), true)
	}
	add("operators", true)
	for _, slot := range slices.SortedFunc(maps.Keys(j.Owners), bySlot) {
		if !strings.HasPrefix(slot, "crowd-") || slot == "crowd-000" { // one stands for all
			add(slot, false)
		}
	}
	p.Height = y + 4
}

// bySlot compares names of shards by their number.
func bySlot(a, b string) int {
	of, k, _ := job.SplitShard(a)
	other, n, _ := job.SplitShard(b)
	return cmp.Or(strings.Compare(of, other), k-n)
}

func (p *page) shape(lane string, from, to time.Duration, top, height float64, fill, title string) {
	y, known := p.lane[lane]
	if !known || to < p.began || from > p.ended {
		return
	}
	x := p.x(from)
	p.Shapes = append(p.Shapes, pageShape{x, y + top, max(1, float64(int(10*(p.x(to)-x)))/10), height, fill, title})
}

// addFaults draws the faults of processes, servers and jobs, and lists them.
func (p *page) addFaults(j *judge, notes map[*deed]string) {
	for _, one := range j.Processes {
		p.shape(memberName(one.Member), one.Life.From, one.Life.To, 2, laneHeight-4, memberColors[one.Member],
			fmt.Sprintf("%s, release %d", one.ID, one.Release))
	}
	for k := range j.Servers {
		p.shape(serverName(k), p.began, p.ended, 2, laneHeight-4, "#ddd", serverName(k))
	}
	for _, d := range j.Deeds {
		text := fmt.Sprintf("%s  %-12s %-16s %s", p.at(d.Span.From), d.Kind, d.On, strings.TrimSpace(d.Note+" "+notes[d]))
		p.Faults = append(p.Faults, text)
		to := cmp.Or(d.Span.To, p.ended)
		switch laneOf(d.Kind) {
		case onInstance:
			p.shape(memberName(d.Target), d.Span.From, to, 4, laneHeight-8, "#b00020", text)
		case onClock:
			p.shape(memberName(d.Target), d.Span.From, to, 12, 3, "#5e3c99", text)
		case onServers:
			for server := range strings.FieldsSeq(d.On) {
				p.shape(server, d.Span.From, to, 4, laneHeight-8, "#b00020", text)
			}
		default:
			p.shape("operators", d.Span.From, to+200*time.Millisecond, 4, laneHeight-8, "#2166ac", text)
		}
	}
}

// addOwners draws who owns each slot.
func (p *page) addOwners(j *judge) {
	for slot, all := range j.Owners {
		for k, one := range all {
			to := p.ended
			if k+1 < len(all) {
				to = j.clock.mono(all[k+1].At)
			}
			if member := j.memberOf(one.SID); member >= 0 {
				p.shape(slot, j.clock.mono(one.At), to, 1, laneHeight-2, memberColors[member], one.SID+" owns "+slot)
			} else if one.Gone {
				p.shape(slot, j.clock.mono(one.At), to, 7, 2, "#ccc", slot+" does not exist")
			}
		}
	}
}

// addRuns draws the runs, by how they ended.
func (p *page) addRuns(j *judge) {
	for _, r := range j.Runs {
		fill, state := "#333", "never claimed"
		if c := j.claims[r.Run]; c != nil {
			state = string(c.State)
		}
		switch state {
		case "failed", "timed_out":
			fill = "#e66101"
		case "interrupted", "lost", "", "never claimed":
			fill = "#b00020"
		}
		title := fmt.Sprintf("tick %s, attempt %d, token %d on %s: %s %s", clock(r.Tick), r.Attempt, r.Token, r.By.ID, state, r.Cause)
		p.shape(r.Job, r.Mono, cmp.Or(r.End, r.By.Life.To), 4, 6, fill, title)
	}
}

// addSkipped draws the ticks that were recorded as not run.
func (p *page) addSkipped(j *judge) {
	for life, ticks := range j.Skipped {
		for tick, reason := range ticks {
			at := j.clock.monoOf(tick)
			p.shape(life.Slot, at, at, 11, 4, "#333", "tick "+clock(tick)+" not run: "+string(reason))
		}
	}
}

// The page has everything in it: nothing is loaded, and names are escaped.
func TestPage(t *testing.T) {
	t.Parallel()
	f := forge()
	f.Ended = at(10)
	f.Owners[forgedSlot] = []txns.Ownership{{At: f.clock.time(at(0.5)), SID: "a", Incarnation: "1"}}
	f.Deeds = []*deed{{fault: fault{Kind: kill}, On: "<i>", Span: span{at(3.7), at(3.8)}}}
	f.Claims[5].State = ""
	f.twice().Lost, f.Claims[5].GoneAt = true, 106
	f.Claims[6].State = ""
	f.Losses = []txns.Loss{{First: 105, Last: 105, Txns: 1, Shown: 106, Time: time.Unix(7, 0)}}
	f.Restores = []txns.Restore{{At: time.Unix(8, 0), Through: 4, Lost: 17}}
	text, err := f.check().drawPage(17, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seed 17", "FAIL", "nothing says what became of it", "a owns " + forgedSlot, "&lt;i&gt;", "tick 00:00:06.000, attempt 1, token 20 on b", "MINUTES=1<",
		"ZooKeeper lost 1 transactions between zxid 0x69 and 0x69, among them the claims of 1 runs that began", "1 runs were repeated", "ran twice",
		"replaced data lost 17 transactions, all after zxid 0x4, among them the claims of 0 runs that began"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, not := range []string{"http:", "https:", "src=", "<i>", "ZgotmplZ"} {
		if strings.Contains(string(text), not) {
			t.Errorf("the page has %q", not)
		}
	}
}

// writePage writes the page, and returns its path.
func writePage(text []byte, dir string, seed uint64) (string, error) {
	path := filepath.Join(dir, fmt.Sprintf("chaos-%d.html", seed))
	return path, os.WriteFile(path, text, 0o600)
}
