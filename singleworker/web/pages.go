package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

//go:embed static templates
var files embed.FS

// view is one page. Its templates see it as dot.
type view struct {
	Template string   // its main part
	Title    string   // of the page, without the name of the group
	Summary  *summary // nil if the group could not be read
	Body     any

	Group  string
	Up     string            // leads from this page to the first one, and is "" if that is beside it
	Assets map[string]string // by name, with a version
	Back   string            // leads from a refused action to the page with the form; "" if this is none
	Done   string            // by the action after which this page is shown
	look   look
	status int // of the answer; 0: 200
}

// pages are the group as HTML. Each has a template, and a body for it.
type pages struct {
	group     *group
	rights    *rights
	title     string
	runURL    string // a template: see Options.RunURL
	logger    *slog.Logger
	templates map[string]*template.Template
	assets    map[string]asset
}

// newPages parses the templates and reads the assets.
func newPages(g *group, may *rights, title, runURL string, logger *slog.Logger) (*pages, error) {
	p := &pages{g, may, title, runURL, logger, make(map[string]*template.Template), make(map[string]asset)}
	paths, err := fs.Glob(files, "*/*.*")
	for _, file := range paths {
		switch name := path.Base(file); {
		case err != nil:
			return nil, err
		case path.Dir(file) == "static":
			var text []byte
			text, err = files.ReadFile(file)
			sum := sha256.Sum256(text)
			p.assets[name] = asset{name: name, text: text, version: hex.EncodeToString(sum[:8])}
		case name != "layout.html":
			p.templates[strings.TrimSuffix(name, ".html")], err = template.ParseFS(files, "templates/layout.html", file)
		}
	}
	return p, err
}

// zoneCookie names the time zone in which a browser wants the times: app.js sets it.
const zoneCookie = "singleworker_zone"

// look is now, in the time zone that the browser asks for, or UTC.
func (p *pages) look(r *http.Request) look {
	l := look{now: p.group.now(), zone: time.UTC}
	if c, err := r.Cookie(zoneCookie); err == nil {
		l.zone = job.Job{TimeZone: c.Value}.Zone()
	}
	return l
}

// page is an answer with the view that a function makes of the group.
func (p *pages) page(see func(*http.Request, *snapshot) (view, error)) func(*http.Request) answer {
	return func(r *http.Request) answer {
		var v view
		s, err := p.group.snapshot(r.Context())
		if err == nil {
			v, err = see(r, s)
		}
		if err != nil {
			return p.shown(r, p.failure(r, err))
		}
		v.Summary, v.Done = s.summary(v.look), done(r, s)
		return p.shown(r, v)
	}
}

// The fields of the query of a page that is shown after an action.
const (
	fieldDone = "done"
	fieldOf   = "of"
)

// deeds are the words for actions that are done.
var deeds = map[string]string{
	"trigger": "A run was requested", "stop-run": "The run was told to stop", "pause": "Paused", "resume": "Resumed", "cancel": "Canceled",
	verbSubmit: "Changed", verbFreeze: "The group is frozen", verbUnfreeze: "The group is unfrozen", "drain": "Told to drain", "enable": "Enabled",
}

// done tells of an action, and its target if that is in the group: others write links, too.
func done(r *http.Request, s *snapshot) string {
	text, of := deeds[r.FormValue(fieldDone)], r.FormValue(fieldOf)
	known := slices.ContainsFunc(s.jobs, func(j admin.JobStatus) bool { return j.Name == of }) ||
		slices.ContainsFunc(s.instances, func(i admin.Instance) bool { return i.ID == of })
	if text != "" && known {
		text += ": " + of
	}
	return text
}

// failure is the page of an error.
func (p *pages) failure(r *http.Request, err error) view {
	status, _ := statusOf(r, err, p.logger)
	return view{Template: "failure", Title: http.StatusText(status), Body: err.Error(), status: status}
}

func (p *pages) shown(r *http.Request, v view) answer {
	v.Group, v.Assets = p.title, make(map[string]string)
	for name, asset := range p.assets {
		v.Assets[name] = v.Up + name + "?v=" + asset.version
	}
	var page bytes.Buffer
	if err := p.templates[v.Template].ExecuteTemplate(&page, "layout", v); err != nil {
		p.logger.Error("page failed", "path", r.URL.Path, "error", err)
		return answer{status: http.StatusInternalServerError, kind: "text/plain; charset=utf-8", text: []byte("this page failed\n")}
	}
	return zipped(r, answer{status: v.status, kind: "text/html; charset=utf-8", text: []byte(legible(page.String()))})
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
