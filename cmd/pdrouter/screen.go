package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// A screen is where a command shows what goes on. On a terminal it has pictures
// that move, and colours unless NO_COLOR is set; into a file or a pipe go plain
// lines only.
type screen struct {
	out      io.Writer
	terminal bool
	colours  bool
	columns  int // how wide it is; 0: as wide as the terminal

	mu     sync.Mutex // guards moving, and orders lines
	moving *mpb.Progress
}

func newScreen(out io.Writer) *screen {
	f, ok := out.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd()))
	plain := os.Getenv("NO_COLOR") != "" //nolint:forbidigo // what a terminal is like is no configuration
	return &screen{out: out, terminal: terminal, colours: terminal && !plain}
}

// The widths of a screen, in columns: where it cannot be told, and the least and
// the most that is drawn for.
const (
	usualWidth = 100
	leastWidth = 40
	mostWidth  = 120
)

// width returns how many columns there are to draw in.
func (s *screen) width() int {
	if s.columns > 0 {
		return s.columns
	}
	if f, ok := s.out.(*os.File); ok && s.terminal {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return min(max(columns, leastWidth), mostWidth)
		}
	}
	return usualWidth
}

// The colours, as a terminal is told them.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint returns text in a colour, if there are colours.
func (s *screen) paint(colour, text string) string {
	if !s.colours || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// say writes one line, above a moving picture if there is one.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf(format, args...) + "\n"
	if s.moving != nil {
		_, _ = s.moving.Write([]byte(line)) // below it is s.out
		return
	}
	_, _ = io.WriteString(s.out, line) // a reader that has left changes nothing of what is found
}

// title begins a part.
func (s *screen) title(text string) {
	s.say("")
	s.say("%s", s.paint(bold, text))
}

// A row is a line of a moving picture: it is asked again and again, by another
// goroutine, what to show in width columns.
type row func(width int) string

// refreshRate is how often a moving picture is drawn.
const refreshRate = 100 * time.Millisecond

// move shows rows that are drawn anew until stop is called; then they stay as
// they are, or vanish. Where nothing can move they are not shown at all.
func (s *screen) move(rows ...row) (stop func(keep bool)) {
	if !s.terminal {
		return func(bool) {}
	}
	picture := mpb.New(mpb.WithOutput(s.out), mpb.WithRefreshRate(refreshRate), mpb.WithAutoRefresh())
	var bars []*mpb.Bar
	for _, r := range rows {
		draw := func(w io.Writer, stat decor.Statistics) error {
			_, err := io.WriteString(w, fit(r(stat.AvailableWidth), stat.AvailableWidth))
			return err
		}
		if b, err := picture.Add(0, mpb.BarFillerFunc(draw), mpb.BarFillerTrim()); err == nil {
			bars = append(bars, b)
		}
	}
	s.mu.Lock()
	s.moving = picture
	s.mu.Unlock()
	return func(keep bool) {
		s.mu.Lock()
		s.moving = nil
		s.mu.Unlock()
		for _, b := range bars {
			b.Abort(!keep)
		}
		picture.Wait()
	}
}

// fit cuts a line that is longer than width: it would take two, and the picture
// would be drawn over itself. Colours take no room.
func fit(line string, width int) string {
	var b strings.Builder
	inCode := false
	for _, r := range line {
		switch {
		case r == '\x1b':
			inCode = true
		case !inCode:
			width--
		}
		if width >= 0 || inCode {
			b.WriteRune(r)
		}
		inCode = inCode && r != 'm'
	}
	return b.String()
}

// A fill is a part of a bar: a share of its length, in a glyph and a colour.
type fill struct {
	share  float64
	glyph  string
	colour string
}

// bar draws a bar of that many columns. What no fill takes is dotted.
func (s *screen) bar(columns int, fills ...fill) string {
	var b strings.Builder
	left := columns
	for _, f := range fills {
		n := min(int(f.share*float64(columns)+0.5), left)
		if n == 0 && f.share > 0 && left > 0 {
			n = 1 // a little is not nothing
		}
		b.WriteString(s.paint(f.colour, strings.Repeat(f.glyph, max(n, 0))))
		left -= max(n, 0)
	}
	return b.String() + s.paint(dim, strings.Repeat("·", left))
}

// kvBar draws how full a KV cache is: what is in use, and beside it what else is
// held or spoken for.
func (s *screen) kvBar(columns int, used, beside float64) string {
	colour := green
	switch {
	case used >= 0.95:
		colour = red
	case used >= 0.85:
		colour = yellow
	}
	return s.bar(columns, fill{used, "█", colour}, fill{beside, "▒", dim})
}

// wrap says a text in lines of at most the screen's width, of which those after
// the first begin with as many spaces as its head is long.
func (s *screen) wrap(head, text string) {
	room := max(s.width()-utf8.RuneCountInString(head), leastWidth/2)
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			s.say("%s%s", head, line)
			head, line = strings.Repeat(" ", utf8.RuneCountInString(head)), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	s.say("%s%s", head, line)
}

// tail returns the last columns of a text that grows.
func tail(text string, columns int) string {
	if n := utf8.RuneCountInString(text); n > columns {
		return string([]rune(text)[n-max(columns, 0):])
	}
	return text
}

// thousands returns n as people read it: 120,000.
func thousands(n int) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// percent returns the share that part is of whole.
func percent(part, whole int) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

// timeText returns d as people compare times: 12.3 s, 0.85 s, 31 ms.
func timeText(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.2f s", d.Seconds())
	default:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
}
