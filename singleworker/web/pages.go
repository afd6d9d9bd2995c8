package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
)

// view is one page. Its templates see it as dot.
type view struct {
	Template string // its main part
	Title    string // of the page, without that of the group
	Now      time.Time
	Summary  *summary // nil if the group could not be read
	Body     any

	Group  string
	Up     string            // what leads from this page to the first one; "" if that is beside it
	Assets map[string]string // by name, with a version
	status int               // of the answer; 0: 200
}

// summary is the line below the head of each page.
type summary struct {
	Jobs, Instances, Running, Problems string
	Bad                                bool
	At                                 stamp
	Clock                              string // of this machine, if it is wrong
}

func (s *snapshot) summary(now time.Time) *summary {
	running := 0
	for _, job := range s.jobs {
		for _, slot := range words.Slots(job) {
			if slot.LastRun != nil && slot.LastRun.State == history.StateRunning {
				running++
			}
		}
	}
	problems := len(attention(s, now))
	return &summary{
		Jobs: counted(len(s.jobs), "job"), Instances: counted(len(s.instances), "instance"), Running: fmt.Sprintf("%d running", running),
		Problems: counted(problems, "problem"), Bad: problems > 0, At: stamp{s.at, now, time.UTC}, Clock: s.clock,
	}
}

// stamp is a moment on a page.
type stamp struct {
	at, now time.Time
	zone    *time.Location
}

func (s stamp) IsZero() bool  { return s.at.IsZero() }
func (s stamp) ISO() string   { return s.at.UTC().Format(time.RFC3339) }
func (s stamp) Full() string  { return plain.Absolute(s.at, s.zone) }
func (s stamp) Ago() string   { return plain.Relative(s.at, s.now) }
func (s stamp) Clock() string { return s.at.In(s.zone).Format("15:04:05 MST") }

func jobLink(name string) string      { return "job?name=" + url.QueryEscape(name) }
func instanceLink(id string) string   { return "instance?id=" + url.QueryEscape(id) }
func tickLink(name, at string) string { return jobLink(name) + "&at=" + url.QueryEscape(at) + "#why" }

// load parses the templates and reads the assets.
func (h *handler) load() error {
	h.assets = make(map[string]asset)
	err := fs.WalkDir(files, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		sum := sha256.Sum256(text)
		h.assets[path.Base(name)] = asset{name: path.Base(name), text: text, version: hex.EncodeToString(sum[:8])}
		return err
	})
	if err != nil {
		return err
	}
	pages, err := fs.Glob(files, "templates/*.html")
	h.pages = make(map[string]*template.Template)
	for _, file := range pages {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || err != nil {
			continue
		}
		h.pages[name], err = template.ParseFS(files, "templates/layout.html", file)
	}
	return err
}

// page is an answer of HTML.
func (h *handler) page(r *http.Request, look func(*http.Request) (view, error)) answer {
	v, err := look(r)
	if err != nil {
		v = h.failure(r, err)
	}
	return h.shown(r, v)
}

// failure is the page of an error.
func (h *handler) failure(r *http.Request, err error) view {
	status, _ := h.statusOf(r, err)
	return view{Template: "failure", Title: http.StatusText(status), Now: h.now(), Body: err.Error(), status: status}
}

func (h *handler) shown(r *http.Request, v view) answer {
	v.Group, v.Assets = h.opts.Title, make(map[string]string)
	for name, asset := range h.assets {
		v.Assets[name] = v.Up + name + "?v=" + asset.version
	}
	var page bytes.Buffer
	if err := h.pages[v.Template].ExecuteTemplate(&page, "layout", v); err != nil {
		h.opts.Logger.Error("page failed", "path", r.URL.Path, "error", err)
		return answer{status: http.StatusInternalServerError, kind: "text/plain; charset=utf-8", text: []byte("this page failed\n")}
	}
	return zipped(r, answer{status: v.status, kind: "text/html; charset=utf-8", text: []byte(legible(page.String()))})
}

// legible makes every line of a page printable, whatever was put into it.
func legible(page string) string {
	var text strings.Builder
	text.Grow(len(page))
	for line := range strings.Lines(page) {
		line, more := strings.CutSuffix(line, "\n")
		text.WriteString(plain.Printable(line))
		if more {
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// asset is a file that pages load, under a name that changes with it.
type asset struct {
	name, version string
	text          []byte
}

func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}[path.Ext(a.name)]
	if r.FormValue("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	zipped(r, answer{kind: kind, text: a.text}).send(w)
}
