package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// LimitNames are the names of the limits that the job names, sorted.
func (j Job) LimitNames() []string { return slices.Sorted(maps.Keys(j.Limits)) }

// checkLimits refuses names that are none, and needs that no limit can meet.
func (j Job) checkLimits() error {
	if n := len(j.Limits); n > MaxLimits {
		return Invalid("Limits", fmt.Sprintf("%d limits", n), fmt.Errorf("are too many, at most %d are allowed", MaxLimits))
	}
	for _, name := range j.LimitNames() {
		err := CheckNodeName(name)
		switch need := j.Limits[name]; {
		case err != nil:
			return Invalid("Limits", name, err)
		case need < 1:
			return Invalid("Limits", name+"="+strconv.Itoa(need), errors.New("needs no place: want 1 or more"))
		case need > MaxPlaces:
			return Invalid("Limits", name+"="+strconv.Itoa(need), fmt.Errorf("needs more places than a limit has, at most %d", MaxPlaces))
		}
	}
	return nil
}

// CheckMax reports why a limit cannot have so many places.
func CheckMax(places int) error {
	if places < 1 || places > MaxPlaces {
		return fmt.Errorf("a limit has %d places, want 1 to %d", places, MaxPlaces)
	}
	return nil
}
