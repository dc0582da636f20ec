package workers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// A file may have these bytes for each block that may be known, and for
	// heads. A block is written twice at most, when it is used meanwhile, and
	// those of workers that have not come back yet once more.
	bytesPerBlock = 24
	bytesForHeads = 64 << 20

	// leftover is how old a file must be that a router was writing when it was
	// killed, to be removed. Another one may be writing now.
	leftover = time.Hour
)

// loadSnapshot reads the snapshot in a file, of at most so many blocks. Like
// readSnapshot, it returns nil if nothing can be taken.
func loadSnapshot(path string, most int) (*snapshot, []error) {
	// Without waiting: whoever opens a pipe waits for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, []error{err}
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		return nil, []error{err}
	}
	if !about.Mode().IsRegular() {
		return nil, []error{errors.New("it is no regular file")}
	}
	limit := int64(most)*bytesPerBlock + bytesForHeads
	if about.Size() > limit {
		return nil, []error{fmt.Errorf("it has %d bytes, and a snapshot of %d blocks %d at most", about.Size(), most, limit)}
	}
	return readSnapshot(io.LimitReader(f, limit), most) // it may grow meanwhile
}

// replaceFile puts what write writes in place of a file, in one step: whoever
// reads it finds the old contents or the new, whole. Only its owner may read
// it: it tells what prompts were alike.
func replaceFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new") // its mode is 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // once it has the other name, there is nothing to remove
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(write(buffered), buffered.Flush()); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename in dir last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeLeftovers removes what routers that were killed while they wrote the
// file have left beside it.
func removeLeftovers(path string, now time.Time) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	found, err := os.ReadDir(dir)
	if err != nil {
		return // whoever reads or writes the file will say so
	}
	for _, entry := range found {
		name := entry.Name()
		if !strings.HasPrefix(name, base+".") || !strings.HasSuffix(name, ".new") || !entry.Type().IsRegular() {
			continue
		}
		if about, err := entry.Info(); err == nil && now.Sub(about.ModTime()) > leftover {
			_ = os.Remove(filepath.Join(dir, name)) // else it stays; it harms nobody
		}
	}
}
