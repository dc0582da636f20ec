package router

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// decoder undoes the content-encoding that the client named.
func decoder(encoding string, src io.Reader) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return src, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(src)
	case "deflate":
		all := bufio.NewReader(src)
		r, err := zlib.NewReader(all)
		return &sealed{r, all}, err
	default:
		return nil, &Error{
			Status: http.StatusUnsupportedMediaType, Code: "unsupported_content_encoding",
			Message: "The Content-Encoding is not supported; use gzip, deflate or none.",
			Header:  http.Header{"Accept-Encoding": {"gzip, deflate"}},
		}
	}
}

// A sealed reader is a zlib reader that accepts nothing behind its content, as
// gzip's own does. What is left unread would be taken for the next request.
type sealed struct {
	io.Reader
	all *bufio.Reader
}

// Read implements io.Reader.
func (s *sealed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if _, err = s.all.ReadByte(); err == nil {
		err = zlib.ErrHeader
	}
	return n, err
}

// isMisencoded reports whether err says that a body is not what its
// content-encoding says.
func isMisencoded(err error) bool {
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return true
	}
	for _, known := range []error{gzip.ErrHeader, gzip.ErrChecksum, zlib.ErrHeader, zlib.ErrChecksum, zlib.ErrDictionary} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
