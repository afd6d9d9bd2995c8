package durable

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
)

var errCrashed = errors.New("the machine has crashed")

// A crashFS is a directory on a disk that crashes. Anything that was not synced may be lost, each
// name by itself, and of a file all bytes from any of them on.
type crashFS struct {
	names   map[string]*inode
	onDisk  map[string]*inode // the names that were synced
	pending []nameChange      // since then
	budget  int               // calls until the crash; negative: none
	calls   int
}

// An inode is a file. Behind its data, there are zeros up to a size.
type inode struct {
	data, synced []byte
	size         int
}

// content is the file as it is read.
func (f *inode) content() []byte {
	return append(bytes.Clone(f.data), make([]byte, max(0, f.size-len(f.data)))...)
}

// A nameChange gives a name to a file; nil takes it away.
type nameChange struct {
	name string
	to   *inode
	from string // of a rename
}

func newCrashFS(budget int) *crashFS {
	return &crashFS{names: map[string]*inode{}, onDisk: map[string]*inode{}, budget: budget}
}

// call counts a call that writes.
func (c *crashFS) call() error {
	if c.budget == 0 {
		return errCrashed
	}
	c.budget--
	c.calls++
	return nil
}

func (c *crashFS) change(op nameChange) {
	c.pending = append(c.pending, op)
	op.apply(c.names)
}

func (op nameChange) apply(names map[string]*inode) {
	delete(names, op.from)
	if op.to == nil {
		delete(names, op.name)
	} else {
		names[op.name] = op.to
	}
}

func (c *crashFS) list() ([]string, error) { return slices.Sorted(maps.Keys(c.names)), nil }

func (c *crashFS) open(name string) (io.ReadCloser, error) {
	if c.names[name] == nil {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(c.names[name].content())), nil
}

func (c *crashFS) create(name string) (file, error) {
	if c.names[name] != nil {
		return nil, fs.ErrExist
	}
	if err := c.call(); err != nil {
		return nil, err
	}
	made := &inode{}
	c.change(nameChange{name: name, to: made})
	return &openFile{c, made}, nil
}

func (c *crashFS) truncate(name string, size int64) error {
	if err := c.call(); err != nil {
		return err
	}
	of := c.names[name]
	of.data, of.size = bytes.Clone(of.content()[:size]), 0
	return nil
}

func (c *crashFS) sync(name string) error {
	if err := c.call(); err != nil {
		return err
	}
	if name != "" {
		c.names[name].synced = bytes.Clone(c.names[name].data)
		return nil
	}
	c.onDisk, c.pending = maps.Clone(c.names), nil
	return nil
}

func (c *crashFS) rename(from, to string) error {
	if err := c.call(); err != nil {
		return err
	}
	c.change(nameChange{name: to, to: c.names[from], from: from})
	return nil
}

func (c *crashFS) remove(name string) error {
	if err := c.call(); err != nil {
		return err
	}
	c.change(nameChange{name: name})
	return nil
}

type openFile struct {
	fs *crashFS
	of *inode
}

func (o *openFile) Write(p []byte) (int, error) {
	o.of.data = append(o.of.data, p...) // of which any part may be on disk
	if err := o.fs.call(); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *openFile) extend(size int64) error {
	o.of.size = int(size)
	return o.fs.call()
}

func (o *openFile) sync() error {
	if err := o.fs.call(); err != nil {
		return err
	}
	o.of.synced = bytes.Clone(o.of.data)
	return nil
}

func (o *openFile) Close() error { return nil }

// images returns the disks that may be left by the crash: each choice of the names that were not
// synced, with any number of the bytes that were not synced, every stride-th of them, and behind
// those nothing, zeros, or zeros and then the last bytes. Files that were extended are or are not.
func (c *crashFS) images(stride int) (images []*crashFS) {
	for choice := range 1 << min(len(c.pending), 5) {
		names := maps.Clone(c.onDisk)
		for i, op := range c.pending {
			if choice>>i&1 == 0 {
				op.apply(names)
			}
		}
		longest := 0
		for _, f := range names {
			longest = max(longest, len(f.data)-len(f.synced))
		}
		for lost := 0; lost <= longest; lost += stride {
			for kind := range 3 {
				image := newCrashFS(-1)
				for name, f := range names {
					data := f.after(lost, kind)
					image.names[name] = &inode{data: data, synced: data}
					if kind > 0 {
						image.names[name].size = f.size
					}
				}
				image.onDisk = maps.Clone(image.names)
				images = append(images, image)
			}
		}
	}
	return images
}

// after returns a file whose last bytes are lost.
func (f *inode) after(lost, kind int) []byte {
	if len(f.data) < len(f.synced) { // was cut
		if lost == 0 {
			return bytes.Clone(f.data)
		}
		return bytes.Clone(f.synced)
	}
	whole := max(len(f.synced), len(f.data)-lost)
	data := bytes.Clone(f.data[:whole])
	if kind == 0 || whole == len(f.data) {
		return data
	}
	data = append(data, make([]byte, len(f.data)-whole)...)
	if kind == 2 {
		n := (len(f.data) - whole) / 2
		copy(data[len(data)-n:], f.data[len(f.data)-n:])
	}
	return data
}
