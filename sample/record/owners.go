package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Owners maps each job to its owner.
type Owners map[string]Owner

// Owner is the instance that owns a job, and since when by ZooKeeper's clock. It is zero if no live
// instance does.
type Owner struct {
	SID   string `json:"sid"`
	Since Millis `json:"since"`
}

func (d Dir) readOwners(when string) (Owners, error) {
	text, err := os.ReadFile(d.path(when + ".json"))
	if err != nil {
		return nil, err
	}
	var owners Owners
	if err := json.Unmarshal(text, &owners); err != nil {
		return nil, fmt.Errorf("%s: %w", when, err)
	}
	return owners, nil
}

// Busiest returns the instance that owns the most jobs, and how many. It returns an error if no job
// has an owner.
func (o Owners) Busiest() (sid string, count int, err error) {
	counts := o.count()
	for candidate, n := range counts {
		if n > count || n == count && candidate < sid {
			sid, count = candidate, n
		}
	}
	if sid == "" {
		return "", 0, errors.New("no job has an owner")
	}
	return sid, count, nil
}

// Shares returns how many jobs each of these instances owns, as "3-3-3". It returns an error unless
// each job is owned by one of them and the numbers differ by at most one.
func (o Owners) Shares(sids []string) (string, error) {
	counts := o.count()
	least, most, sum := len(o), 0, 0
	var texts []string
	for _, sid := range sids {
		least, most, sum = min(least, counts[sid]), max(most, counts[sid]), sum+counts[sid]
		texts = append(texts, strconv.Itoa(counts[sid]))
	}
	switch text := strings.Join(texts, "-"); {
	case sum < len(o):
		return "", fmt.Errorf("shares %s: %d of %d jobs have no owner among these", text, len(o)-sum, len(o))
	case most-least > 1:
		return "", fmt.Errorf("shares %s differ by more than one", text)
	default:
		return text, nil
	}
}

func (o Owners) count() map[string]int {
	counts := make(map[string]int)
	for _, owner := range o {
		if owner.SID != "" {
			counts[owner.SID]++
		}
	}
	return counts
}
