package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestScreenMovesOnATerminal(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, terminal: true, colours: true}
	drawn := make(chan struct{}, 100)
	stop := s.move(func(width int) string {
		select {
		case drawn <- struct{}{}:
		default:
		}
		return "row " + s.bar(10, fill{0.5, "#", green}) + strings.Repeat("x", width)
	})
	<-drawn
	s.say("above")
	<-drawn
	stop(true)
	s.say("below")
	text := out.String()
	above, row, below := strings.Index(text, "above"), strings.LastIndex(text, "row "), strings.Index(text, "below")
	if above < 0 || row < above || below < row {
		t.Errorf("want above, row, below, in this order: %q", text)
	}
	if !strings.Contains(text, "row \x1b[32m#####\x1b[0m\x1b[2m·····\x1b[0mxxx") {
		t.Errorf("want a green half of a bar: %q", text)
	}
}

func TestScreenDoesNotMoveElsewhere(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	stop := s.move(func(int) string { t.Error("a row was asked for"); return "" })
	s.title("title")
	s.say("%s %s", s.paint(red, "plain"), s.bar(4, fill{0.5, "#", green}))
	stop(true)
	if got, want := out.String(), "\ntitle\nplain ##··\n"; got != want {
		t.Errorf("screen = %q, want %q", got, want)
	}
}

func TestBar(t *testing.T) {
	tests := []struct {
		name  string
		fills []fill
		want  string
	}{
		{"empty is dotted", nil, "··········"},
		{"nothing is nothing", []fill{{0, "#", ""}}, "··········"},
		{"a little is something", []fill{{0.001, "#", ""}}, "#·········"},
		{"two parts stand side by side", []fill{{0.3, "#", ""}, {0.5, "=", ""}}, "###=====··"},
		{"full is full", []fill{{1, "#", ""}}, "##########"},
		{"more than full is cut", []fill{{0.96, "#", ""}, {0.4, "=", ""}}, "##########"},
		{"the second part is cut to what is left", []fill{{0.8, "#", ""}, {0.4, "=", ""}}, "########=="},
	}
	s := newScreen(new(bytes.Buffer))
	for _, tt := range tests {
		if got := s.bar(10, tt.fills...); got != tt.want {
			t.Errorf("%s: bar = %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := s.bar(0, fill{0.5, "#", ""}); got != "" {
		t.Errorf("a bar without room = %q", got)
	}
}

func TestFit(t *testing.T) {
	tests := []struct {
		line  string
		width int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"·█▒·", 3, "·█▒"},
		{"\x1b[32mab\x1b[0mcd", 3, "\x1b[32mab\x1b[0mc"},
		{"ab\x1b[32mcd\x1b[0m", 3, "ab\x1b[32mc\x1b[0m"}, // the end of a colour is kept
	}
	for _, tt := range tests {
		if got := fit(tt.line, tt.width); got != tt.want {
			t.Errorf("fit(%q, %d) = %q, want %q", tt.line, tt.width, got, tt.want)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	tests := []struct{ got, want string }{
		{thousands(0), "0"},
		{thousands(999), "999"},
		{thousands(1000), "1,000"},
		{thousands(4_859_041), "4,859,041"},
		{thousands(-1500), "-1,500"},
		{percent(1, 3), "33 %"},
		{percent(0, 0), "0 %"},
		{timeText(31 * time.Millisecond), "31 ms"},
		{timeText(850 * time.Millisecond), "0.85 s"},
		{timeText(12340 * time.Millisecond), "12.3 s"},
		{tail("abcdef", 3), "def"},
		{tail("ab", 3), "ab"},
		{tail("ab", -1), ""},
		{portOf("http://127.0.0.1:30001"), ":30001"},
	}
	for i, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%d: got %q, want %q", i, tt.got, tt.want)
		}
	}
	if mean(nil) != 0 || mean([]time.Duration{1, 3}) != 2 {
		t.Error(fmt.Sprint("mean = ", mean(nil), mean([]time.Duration{1, 3})))
	}
}
