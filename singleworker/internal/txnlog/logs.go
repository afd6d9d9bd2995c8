package txnlog

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Logs reads the logs of one server one after the other. Not safe for concurrent use.
type Logs struct {
	// Torn has the remarks about files that end within a record.
	Torn []string

	files []File
	open  *os.File
	in    *Reader
	begun bool  // a transaction of the open file was read
	first int64 // of that file, or of the one before
	last  int64
	done  int64 // bytes of the files that were read before
}

// NewLogs reads the files, which List returned.
func NewLogs(files []File) *Logs { return &Logs{files: files} }

// Done is how many bytes of the files were dealt with.
func (l *Logs) Done() int64 {
	if l.in == nil {
		return l.done
	}
	return l.done + l.in.Offset()
}

// Next returns the next transaction, and io.EOF after the last one. It returns ErrCorrupt for a
// file that is damaged, and if the files are not in order. A transaction that a server has logged
// twice, because it left its ensemble and joined it again, is returned once.
func (l *Logs) Next() (Txn, error) {
	for {
		if l.in == nil {
			if len(l.files) == 0 {
				return Txn{}, io.EOF
			}
			if err := l.begin(); err != nil && !errors.Is(err, ErrTorn) {
				return Txn{}, errors.Join(l.failed(err), l.Close())
			} else if err != nil {
				l.end(err)
				continue
			}
		}
		txn, err := l.in.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, ErrTorn):
			l.end(err)
		case err != nil:
			return Txn{}, errors.Join(l.failed(err), l.Close())
		case !l.begun && txn.Zxid <= l.first:
			err = fmt.Errorf("%w: zxid %#x follows %#x", ErrCorrupt, txn.Zxid, l.last)
			return Txn{}, errors.Join(l.failed(err), l.Close())
		default:
			if !l.begun {
				l.begun, l.first = true, txn.Zxid
			}
			if txn.Zxid > l.last {
				l.last = txn.Zxid
				return txn, nil
			}
		}
	}
}

func (l *Logs) failed(err error) error { return fmt.Errorf("%s: %w", l.files[0].Path, err) }

func (l *Logs) begin() (err error) {
	if l.open, err = os.Open(l.files[0].Path); err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	l.in, err = NewReader(l.open)
	l.begun = false
	return err
}

// end leaves a file for the next one.
func (l *Logs) end(err error) {
	if errors.Is(err, ErrTorn) {
		l.Torn = append(l.Torn, l.failed(err).Error())
	}
	_ = l.Close()
	l.done += l.files[0].Size
	l.files = l.files[1:]
}

// Close closes the file that is being read. Logs cannot be read afterwards.
func (l *Logs) Close() error {
	if l.open == nil {
		return nil
	}
	err := l.open.Close()
	l.open, l.in = nil, nil
	return err
}
