package fields

import (
	"maps"
	"reflect"
	"strings"

	"github.com/swjobs/singleworker/singleworker/job"
)

// The forms of values in a schema.
var (
	anyText  = map[string]any{"type": "string"}
	anyTexts = map[string]any{"type": "object", "additionalProperties": anyText}
)

// durationPattern matches what Go reads as a duration.
const durationPattern = `([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+`

func matching(pattern string) map[string]any {
	return map[string]any{"type": "string", "pattern": "^(" + pattern + ")$"}
}

// Schema is the JSON Schema of a job in a file.
func Schema() any {
	properties := map[string]any{
		"name":   map[string]any{"type": "string", "maxLength": job.MaxNameBytes, "description": "name of the job in its group"},
		"paused": map[string]any{"type": "boolean", "description": "whether the job is paused (default: as it is)"},
	}
	for _, f := range table {
		of, _ := reflect.TypeFor[job.Job]().FieldByName(f.of)
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		_, about, _ := strings.Cut(strings.TrimPrefix(f.usage, "`"), "` ")
		if about == "" { // a switch
			about = f.usage
		}
		schema := maps.Clone(f.schema)
		schema["description"] = strings.TrimSuffix(about, "; may be repeated")
		properties[name] = schema
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "a job in a file for swctl apply", "type": "object",
		"required": []string{"name", "schedule"}, "additionalProperties": false, "properties": properties,
	}
}
