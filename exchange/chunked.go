package exchange

import (
	"errors"
	"fmt"
)

const (
	// maxChunkLine bounds the line before a chunk: its size and extensions,
	// which nobody sends and nobody reads.
	maxChunkLine = 4096

	// maxTrailer bounds the trailers of a chunked body, in bytes. They are read
	// to reach the end of the answer, and thrown away.
	maxTrailer = 4096
)

// errChunked reports what is not the chunked coding of RFC 9112, 7.1.
var errChunked = errors.New("malformed chunked encoding")

// A chunks takes the chunked coding off a body, in the memory that the body was
// read into. So a chunk costs no copy but that within the reader's cache, and one
// read of the socket brings as many of them as there is room for.
//
// The zero value is at the beginning of a body.
type chunks struct {
	state chunkState
	left  uint64 // of the chunk's data
	line  int    // bytes of the chunk's line, or of all trailers
	over  bool   // something came behind the end
}

// A chunkState is what the next byte belongs to.
type chunkState uint8

const (
	chunkSize      chunkState = iota // the first digit of a size
	chunkMore                        // further digits
	chunkExtension                   // what may follow them, up to the CR
	chunkLF                          // the LF behind it
	chunkData
	chunkDataCR // behind the data
	chunkDataLF
	trailerStart // of a line, which may be the empty one
	trailerName
	trailerValue
	trailerLF
	trailerLast // the LF of the empty line
	chunkedEnd
)

// ended reports whether all of the body has come.
func (c *chunks) ended() bool { return c.state == chunkedEnd }

// strip leaves in p[:n] what of it is data.
func (c *chunks) strip(p []byte) (n int, err error) {
	for i := 0; i < len(p); {
		if c.state == chunkData {
			size := int(min(c.left, uint64(len(p)-i)))
			n += copy(p[n:], p[i:i+size])
			i += size
			if c.left -= uint64(size); c.left == 0 {
				c.state = chunkDataCR
			}
			continue
		}
		if c.state == chunkedEnd {
			c.over = true
			return n, nil
		}
		if err := c.step(p[i]); err != nil {
			return n, err
		}
		i++
	}
	return n, nil
}

// step takes one byte that is no data.
func (c *chunks) step(b byte) error {
	if c.state >= trailerStart {
		return c.stepTrailer(b)
	}
	c.line++
	switch {
	case c.line > maxChunkLine:
		return errors.New("chunk line too long")
	case c.state == chunkSize || c.state == chunkMore:
		return c.stepSize(b)
	case c.state == chunkExtension:
		return c.stepExtension(b)
	case c.state == chunkLF && b == '\n' && c.left > 0:
		c.state = chunkData
	case c.state == chunkLF && b == '\n':
		c.state, c.line = trailerStart, 0
	case c.state == chunkDataCR && b == '\r':
		c.state = chunkDataLF
	case c.state == chunkDataLF && b == '\n':
		c.state, c.line = chunkSize, 0
	default:
		return errChunked
	}
	return nil
}

func (c *chunks) stepSize(b byte) error {
	digit, ok := hexDigit(b)
	switch {
	case ok && (c.line > 16 || c.left>>59 != 0):
		return errors.New("chunk length too large")
	case ok:
		c.left, c.state = c.left<<4|digit, chunkMore
		return nil
	case c.state == chunkSize || b != ';' && b != '\r':
		return fmt.Errorf("%w: invalid byte in chunk length", errChunked)
	}
	c.state = chunkExtension
	return c.stepExtension(b)
}

func (c *chunks) stepExtension(b byte) error {
	switch {
	case b == '\r':
		c.state = chunkLF
	case isExtension(b):
	default:
		return fmt.Errorf("%w: invalid byte in a chunk extension", errChunked)
	}
	return nil
}

// isExtension reports whether b may stand between a size and its end of line:
// what a header's value may have.
func isExtension(b byte) bool { return b == '\t' || b >= ' ' && b != 0x7f }

func hexDigit(b byte) (value uint64, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return uint64(b - '0'), true
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return uint64(b|0x20-'a') + 10, true
	}
	return 0, false
}

// stepTrailer takes one byte behind the last chunk.
func (c *chunks) stepTrailer(b byte) error {
	if c.line++; c.line > maxTrailer {
		return fmt.Errorf("trailers are larger than %d bytes", maxTrailer)
	}
	switch {
	case c.state == trailerStart && b == '\r':
		c.state = trailerLast
	case c.state == trailerLast && b == '\n':
		c.state = chunkedEnd
	case c.state == trailerStart && isTokenByte(b), c.state == trailerName && isTokenByte(b):
		c.state = trailerName
	case c.state == trailerName && b == ':':
		c.state = trailerValue
	case c.state == trailerValue && b == '\r':
		c.state = trailerLF
	case c.state == trailerValue && isExtension(b):
	case c.state == trailerLF && b == '\n':
		c.state = trailerStart
	default:
		return errors.New("malformed trailer")
	}
	return nil
}
