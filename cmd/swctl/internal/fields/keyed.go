package fields

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/job"
)

// keyed is a field with a value for each of some keys. Those that the flag has are set beside those
// that the job has.
func keyed[K cmp.Ordered, V any](f field, at func(*job.Job) *map[K]V, format func(K, V) value,
	parse func(f field, given map[string]string) (map[K]V, error),
) field {
	f.repeated = true
	f.values = func(j job.Job) (values []value) {
		for _, key := range slices.Sorted(maps.Keys(*at(&j))) {
			values = append(values, format(key, (*at(&j))[key]))
		}
		return values
	}
	f.read = func(c *cmdline.Call, f field) (func(*job.Job), error) {
		given, err := c.Pairs(f.flag, f.preset)
		if err != nil {
			return nil, err
		}
		parsed, err := parse(f, given)
		return func(j *job.Job) {
			merged := map[K]V{}
			maps.Copy(merged, *at(j))
			maps.Copy(merged, parsed)
			*at(j) = merged
		}, err
	}
	f.remove = func(c *cmdline.Call, f field) func(*job.Job) {
		keys := c.Flags.StringSlice(f.drop)
		return func(j *job.Job) {
			maps.DeleteFunc(*at(j), func(key K, of V) bool { return slices.Contains(keys, format(key, of).key) })
		}
	}
	return f
}

func pairs(f field, at func(*job.Job) *map[string]string) field {
	f.schema = anyTexts
	return keyed(f, at, func(key, text string) value { return value{key, text} },
		func(_ field, given map[string]string) (map[string]string, error) { return given, nil })
}

// counts are numbers by key, 1 for a key without one.
func counts(f field, most int, at func(*job.Job) *map[string]int) field {
	f.preset = "1"
	f.schema = map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "integer", "minimum": 1, "maximum": most}}
	return keyed(f, at, func(key string, n int) value { return value{key, strconv.Itoa(n)} },
		func(f field, given map[string]string) (map[string]int, error) {
			parsed := map[string]int{}
			for _, key := range slices.Sorted(maps.Keys(given)) {
				n, err := strconv.Atoi(given[key])
				if err != nil {
					return nil, cmdline.Usage("--%s %q: want a name, or NAME=NUMBER", f.flag, key+"="+given[key]).Try("%s", f.try)
				}
				parsed[key] = n
			}
			return parsed, nil
		})
}

// everything is the flag's word for an empty list of kinds.
const everything = "all"

// notices are kinds of events by target.
func notices(f field, at func(*job.Job) *map[string][]job.NotifyKind) field {
	kinds := map[string]any{"type": "array", "items": map[string]any{"enum": job.NotifyKinds()}}
	f.schema = map[string]any{"type": "object", "additionalProperties": kinds}
	f = keyed(f, at, func(target string, kinds []job.NotifyKind) value {
		var texts []string
		for _, kind := range kinds {
			texts = append(texts, string(kind))
		}
		return value{target, cmp.Or(strings.Join(texts, ","), everything)}
	}, func(_ field, given map[string]string) (map[string][]job.NotifyKind, error) {
		of := map[string][]job.NotifyKind{}
		for target, text := range given {
			of[target] = []job.NotifyKind{}
			if text == everything {
				continue
			}
			for kind := range strings.SplitSeq(text, ",") {
				of[target] = append(of[target], job.NotifyKind(strings.TrimSpace(kind)))
			}
		}
		return of, nil
	})
	read := f.read
	f.read = func(c *cmdline.Call, f field) (func(*job.Job), error) {
		change, err := read(c, f)
		if err != nil {
			err = cmdline.WithHint(err, "%s", f.try)
		}
		return change, err
	}
	return f
}

// shardParams are texts by shard; an empty one is removed. The job judges which shards there are.
func shardParams(f field) field {
	f.schema = anyTexts
	f = keyed(f, func(j *job.Job) *map[int]string { return &j.ShardParameters },
		func(k int, param string) value { return value{strconv.Itoa(k), param} },
		func(f field, given map[string]string) (params map[int]string, err error) {
			params = map[int]string{}
			for _, key := range slices.Sorted(maps.Keys(given)) {
				k, bad := strconv.Atoi(key)
				if err == nil && (bad != nil || strconv.Itoa(k) != key) {
					err = cmdline.Usage("--%s %q: want the number of a shard, from 0", f.flag, key+"="+given[key]).Try("--%s 0=Beijing", f.flag)
				}
				params[k] = given[key]
			}
			return params, err
		})
	read := f.read
	f.read = func(c *cmdline.Call, f field) (func(*job.Job), error) {
		change, err := read(c, f)
		return func(j *job.Job) {
			change(j)
			maps.DeleteFunc(j.ShardParameters, func(_ int, param string) bool { return param == "" }) // as good as none
		}, err
	}
	return f
}
