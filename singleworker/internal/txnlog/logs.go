package txnlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Logs reads the logs of one server one after the other. Not safe for concurrent use.
type Logs struct {
	// Torn has the remarks about files that end within a record.
	Torn []string
	// Wait, if set, is called at the end of the last file. It waits a moment and returns the files
	// that there are then. Next goes on reading there. Its error is Next's.
	Wait func() ([]File, error)

	files []File
	open  *os.File
	in    *Reader
	begun bool  // a transaction of the open file was read
	first int64 // of that file, or of the one before
	last  int64
	done  int64 // bytes of the files that were read before

	doubted int64 // where a record was damaged, when it was read first
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
// twice, because it left its ensemble and joined it again, is returned once. With Wait, it returns
// ErrCut if the server has cut the file that is read, or removed it.
func (l *Logs) Next() (Txn, error) {
	for {
		if l.in == nil {
			if len(l.files) == 0 {
				return Txn{}, io.EOF
			}
			err := l.begin()
			if errors.Is(err, ErrTorn) {
				err = l.end(0, err)
				if err == nil {
					continue
				}
			}
			if err != nil {
				return Txn{}, errors.Join(l.failed(err), l.Close())
			}
		}
		at := l.in.Offset()
		txn, err := l.in.Next()
		unfinished := l.Wait != nil && errors.Is(err, ErrCorrupt) && l.doubted != at // perhaps being written just now
		if unfinished {
			l.doubted = at
		}
		if unfinished || errors.Is(err, io.EOF) || errors.Is(err, ErrTorn) {
			if err = l.end(at, err); err == nil {
				continue
			}
		}
		switch {
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

// end leaves a file, which could be read up to at, for the next one. If there is none, and Wait, it
// goes on reading there.
func (l *Logs) end(at int64, why error) error {
	if l.Wait != nil {
		more, err := l.more(at)
		if more || err != nil {
			return err
		}
	}
	switch {
	case errors.Is(why, ErrCorrupt):
		return why
	case errors.Is(why, ErrTorn):
		l.Torn = append(l.Torn, l.failed(why).Error())
	}
	_ = l.Close()
	l.done += l.files[0].Size
	l.files = l.files[1:]
	return nil
}

// more verifies that the file is still as long as it was when it was read. It returns whether there
// may be more of it: the server may have completed it before it began the next one, so it is read
// once more when there is a next one.
func (l *Logs) more(at int64) (bool, error) {
	last := len(l.files) == 1
	if last {
		files, err := l.Wait()
		if err != nil {
			return false, err
		}
		l.files = append(l.files, slices.DeleteFunc(files, func(f File) bool { return f.Zxid <= l.files[0].Zxid })...)
	}
	info, err := os.Stat(l.files[0].Path)
	switch {
	case os.IsNotExist(err), err == nil && info.Size() < at:
		return false, fmt.Errorf("%w: after byte %d", ErrCut, at)
	case err != nil:
		return false, fmt.Errorf("%w: %w", ErrFile, err)
	case !last:
		return false, nil
	}
	l.files[0].Size = info.Size()
	return true, l.resume(at)
}

// resume reads the file from at on, where a record begins; a file without its head from the
// beginning.
func (l *Logs) resume(at int64) error {
	if at == 0 {
		return l.Close()
	}
	if _, err := l.open.Seek(at, io.SeekStart); err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	l.in.resume(l.open, at)
	return nil
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
