package files

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// YAML writes jobs as Read reads them: a document for each. Fields that have their default are left
// out.
func YAML(jobs ...job.Job) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	for _, j := range jobs {
		text, err := plain.Encode(j.Normal())
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", j.Name, err)
		}
		trees, _ := parseJSON(text)
		if err := enc.Encode(written(trees[0])); err != nil {
			return nil, fmt.Errorf("job %s: %w", j.Name, err)
		}
	}
	return out.Bytes(), enc.Close()
}

// simple finds text of several lines that a block of YAML holds as it is.
var simple = regexp.MustCompile(`^[^\s](.*[^\s])?(\n[^\s](.*[^\s])?)*\n?$`)

// written gives a tree the style of YAML: quotes only where text would be read as something else.
func written(n *yaml.Node) *yaml.Node {
	n.Style = 0
	switch {
	case n.Tag != tagText:
		if number, err := strconv.ParseFloat(n.Value, 64); n.Tag == tagFloat && err == nil && isAmbiguous(n) {
			n.Value = strconv.FormatFloat(number, 'f', -1, 64)
		}
		n.Tag = ""
	case isAmbiguous(n), strings.Contains(n.Value, "\n") && !simple.MatchString(n.Value):
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, inner := range n.Content {
		written(inner)
	}
	return n
}
