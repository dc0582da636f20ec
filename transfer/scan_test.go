package transfer

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// deep returns n lists, one in the other.
func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestParseTakesWhatJSONAllows(t *testing.T) {
	for name, body := range map[string]string{
		"an empty object":                     `{}`,
		"whitespace wherever it may be":       "\r\n\t { \"a\" : [ 1 , { } , [ ] ] \n} \n",
		"all kinds of values":                 `{"a":[true,false,null,-0,0.5,1e9,-1.25E-7,"",{"b":[]}]}`,
		"numbers that no float64 holds":       `{"a":[1e400,123456789012345678901234567890,0.1000000000000000000001]}`,
		"every escape":                        `{"a":"\"\\\/\b\f\n\r\t\u00e9\u0000"}`,
		"half a surrogate pair":               `{"a":"\ud83d","\udc00":"\ud83d\u0041"}`,
		"DEL, which is no control character":  "{\"a\":\"\x7f\"}",
		"all lengths of UTF-8":                `{"é€😀":"é€😀 aé€😀 aaé€😀 aaaé€😀 aaaa"}`,
		"a thousand levels":                   `{"a":` + deep(999) + `}`,
		"a thousand levels of objects":        strings.Repeat(`{"a":`, 1000) + `1` + strings.Repeat(`}`, 1000),
		"token ids with spaces":               `{"prompt":[1, 22 ,333,  0 ]}`,
		"the same unknown key twice":          `{"a":1,"a":2}`,
		"a key of ours inside another value":  `{"a":{"stream":1,"stream":2}}`,
		"null for every key that we read":     `{"model":null,"stream":null,"messages":null,"n":null,"max_tokens":null}`,
		"hand-off keys twice":                 `{"rid":1,"rid":2}`,
		"a key with the longest of our names": `{"` + strings.Repeat("k", 200) + `":1,"\u006bk` + strings.Repeat("k", 200) + `":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			if !json.Valid([]byte(body)) {
				t.Fatalf("the case is wrong: %s", body)
			}
			if _, err := Parse(Chat, []byte(body)); err != nil {
				t.Errorf("Parse(%.200s) = %v", body, err)
			}
		})
	}
}

func TestParseRefusesWhatIsNotOneObject(t *testing.T) {
	for name, c := range map[string]struct {
		body, want string
		at         int // -1: no offset in the message
	}{
		"nothing":                        {"", "the body is empty", -1},
		"whitespace":                     {" \n", "the body is empty", -1},
		"a list":                         {"[1]", "must be a JSON object", -1},
		"a word":                         {"null", "must be a JSON object", -1},
		"no JSON":                        {"hello", whyValue, 0},
		"two objects":                    {`{} {}`, whyMore, 3},
		"a comma behind":                 {`{},`, whyMore, 2},
		"a NUL behind":                   {"{}\x00", whyMore, 2},
		"cut in a key":                   {`{"a`, whyEnd, 3},
		"cut behind a key":               {`{"a"`, whyEnd, 4},
		"cut behind a colon":             {`{"a":`, whyEnd, 5},
		"cut in a word":                  {`{"a":tru`, whyEnd, 8},
		"cut in a number":                {`{"a":-`, whyEnd, 6},
		"cut in a list":                  {`{"a":[1,2`, whyEnd, 9},
		"cut behind a comma":             {`{"a":1,`, whyEnd, 7},
		"cut in an escape":               {`{"a":"\u00`, whyEnd, 10},
		"cut behind a backslash":         {`{"a":"\`, whyEnd, 7},
		"a comma too many in an object":  {`{"a":1,}`, whyKey, 7},
		"a comma too many in a list":     {`{"a":[1,]}`, whyValue, 8},
		"a comma too few":                {`{"a":1 "b":2}`, whyComma, 7},
		"no colon":                       {`{"a" 1}`, whyColon, 5},
		"a key without quotes":           {`{a:1}`, whyKey, 1},
		"single quotes":                  {`{'a':1}`, whyKey, 1},
		"brackets that do not match":     {`{"a":[1}}`, whyComma, 7},
		"NaN":                            {`{"a":NaN}`, whyValue, 5},
		"Infinity":                       {`{"a":-Infinity}`, whyNumber, 6},
		"a leading zero":                 {`{"a":01}`, whyComma, 6},
		"a leading zero among token ids": {`{"a":[1,02,3]}`, whyComma, 9},
		"a leading plus":                 {`{"a":+1}`, whyValue, 5},
		"a point without digits":         {`{"a":1.}`, whyNumber, 7},
		"an exponent without digits":     {`{"a":1e+}`, whyNumber, 8},
		"a hexadecimal number":           {`{"a":0x1}`, whyComma, 6},
		"a comment":                      {`{/**/"a":1}`, whyKey, 1},
		"a wrong word":                   {`{"a":truE}`, whyValue, 8},
		"a word that goes on":            {`{"a":nulls}`, whyComma, 9},
		"an unknown escape":              {`{"a":"\x"}`, whyEscape, 6},
		"an escape without digits":       {`{"a":"\u00g0"}`, whyEscape, 10},
		"a raw line feed in a string":    {"{\"a\":\"\n\"}", whyControl, 6},
		"a raw NUL in a long string":     {"{\"a\":\"0123456789abcdef\x00\"}", whyControl, 22},
		"a raw control in a key":         {"{\"a\x1f\":1}", whyControl, 3},
		"a lone byte above ASCII":        {"{\"a\":\"abc\xff\"}", whyUTF8, 9},
		"half a character":               {"{\"a\":\"12345678\xe4\xbd\"}", whyUTF8, 14},
		"a surrogate in UTF-8":           {"{\"a\":\"\xed\xa0\x80\"}", whyUTF8, 6},
		"an overlong slash":              {"{\"a\":\"\xc0\xaf\"}", whyUTF8, 6},
		"above the last code point":      {"{\"a\":\"\xf4\x90\x80\x80\"}", whyUTF8, 6},
		"UTF-8 outside of a string":      {"{\"a\":é}", whyValue, 5},
		"a byte order mark":              {"\xef\xbb\xbf{}", whyValue, 0},
		"a no-break space":               {"{\u00a0}", whyKey, 1},
		"more than a thousand levels":    {`{"a":` + deep(1000) + `}`, whyDepth, 1004},
		"a million levels":               {strings.Repeat("[", 1_000_000), whyDepth, 1000},
		"a million levels of objects":    {strings.Repeat(`{"a":`, 1_000_000), whyDepth, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(Chat, []byte(c.body))
			bad, ok := errors.AsType[*BadRequest](err)
			if !ok || bad.Code != CodeJSON || !strings.Contains(bad.Message, c.want) {
				t.Fatalf("Parse(%.60q) = %v, want %q", c.body, err, c.want)
			}
			if at := "at byte " + strconv.Itoa(c.at); c.at >= 0 && !strings.HasSuffix(bad.Message, at) {
				t.Errorf("Parse(%.60q) = %q, want it %s", c.body, bad.Message, at)
			}
		})
	}
}

// TestEveryCutOfABodyIsRefused: a body that its connection lost the end of must
// never look whole.
func TestEveryCutOfABodyIsRefused(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"user","content":"a\u00e9é😀\n"}],"n":1,"x":[1,2,-3.5e+1,true,null,{}]}`
	for cut := range body {
		if _, err := Parse(Chat, []byte(body[:cut])); err == nil {
			t.Errorf("Parse(%q) succeeded", body[:cut])
		}
	}
}

// TestStringsOfEveryLength puts a quote, an escape, a control character and a
// bad byte at every place relative to the bytes that are looked at together.
func TestStringsOfEveryLength(t *testing.T) {
	for n := range 80 {
		for _, fill := range []string{"x", " !#[]\x7f"} {
			fill = strings.Repeat(fill, n)[:n]
			for tail, valid := range map[string]bool{
				`"}`: true, `\n"}`: true, `\\"}`: true, "é\"}": true, "\x01\"}": false, "\x1f\"}": false, "\xff\"}": false,
				`\q"}`: false, "\x80\x01\"}": false, `\n` + fill + `"}`: true, `\n` + fill + "\x00\"}": false,
			} {
				body := `{"a":"` + fill + tail
				if _, err := Parse(Chat, []byte(body)); (err == nil) != valid {
					t.Errorf("Parse(%q) = %v, want success %v", body, err, valid)
				}
			}
		}
	}
}

// TestUTF8IsJudgedAsTheLibraryDoes makes strings of whole characters, of halves
// and of bytes at the limits of what UTF-8 allows.
func TestUTF8IsJudgedAsTheLibraryDoes(t *testing.T) {
	parts := []string{
		"a", "plain ", "é", "好", "\u0800", "\ud7ff", "\ue000", "😀", "\xe0\x9f\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xed\xa0\x80",
		"\xef\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xe4\xbd", "\xe4", "\x80", "\xbf", "\xc0", "\xc1", "\xe0", "\xed", "\xf5", "\xff", "\x7f",
	}
	r := rand.New(rand.NewPCG(3, 4))
	valid := 0
	for range 50_000 {
		text := []byte(`"`)
		of := parts[:9-r.IntN(2)]
		if r.IntN(4) == 0 {
			of = parts
		}
		for range r.IntN(12) {
			text = append(text, of[r.IntN(len(of))]...)
		}
		want := 1
		for want < len(text) {
			c, n := utf8.DecodeRune(text[want:])
			if c == utf8.RuneError && n == 1 {
				break
			}
			want += n
		}
		s := scanner{b: append(text, `" and more behind`...)}
		if want < len(text) {
			if end := s.str(0); end != -1 || s.at != want || s.why != whyUTF8 {
				t.Fatalf("str(%q) = %d, %q at %d, want a fault at %d", text, end, s.why, s.at, want)
			}
			continue
		}
		valid++
		if end := s.str(0); end != len(text)+1 {
			t.Fatalf("str(%q) = %d, %q at %d, want it to be valid", text, end, s.why, s.at)
		}
	}
	if valid < 5_000 || valid > 45_000 {
		t.Errorf("%d of the strings were valid, want more of the other kind", valid)
	}
}

// TestListsOfIntegersAreJudgedAsTheLibraryDoes makes lists of token ids with a
// fault here and there.
func TestListsOfIntegersAreJudgedAsTheLibraryDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	valid := 0
	for range 50_000 {
		list := []byte(`[`)
		for n := range r.IntN(12) {
			if n > 0 {
				list = append(list, ", "[:1+r.IntN(2)]...)
			}
			list = strconv.AppendInt(list, r.Int64N(1<<r.IntN(40)), 10)
		}
		list = append(list, ']')
		if r.IntN(2) == 0 {
			list[r.IntN(len(list))] = "0, -.e]\n\"\xa0\xac\xb0\xe4"[r.IntN(13)]
		}
		body := `{"a":` + string(list) + `,"and":"more"}`
		_, err := Parse(Chat, []byte(body))
		if json.Valid([]byte(body)) != (err == nil) {
			t.Fatalf("Parse(%q) = %v", body, err)
		}
		if err == nil {
			valid++
		}
	}
	if valid < 25_000 || valid > 45_000 {
		t.Errorf("%d of the lists were valid, want more of the other kind", valid)
	}
}
