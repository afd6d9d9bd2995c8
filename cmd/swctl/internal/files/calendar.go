package files

import (
	"errors"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/swjobs/singleworker/singleworker/job"
)

// ReadCalendar reads a file of one calendar; path "-" is stdin.
func ReadCalendar(path string, stdin io.Reader) (is job.Calendar, err error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return is, err
		}
		defer f.Close()
		stdin = f
	}
	decoder := yaml.NewDecoder(io.LimitReader(stdin, job.MaxBytes))
	decoder.KnownFields(true)
	if err := decoder.Decode(&is); err != nil {
		return is, err
	}
	if !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		return is, errors.New("there is more after the calendar")
	}
	return is, is.Validate()
}
