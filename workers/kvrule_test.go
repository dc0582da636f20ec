package workers

import (
	"slices"
	"strings"
	"testing"
)

func TestKVRule(t *testing.T) {
	for text, want := range map[string]KVRule{
		"auto":                             {All: "auto"},
		"off":                              {All: "off"},
		"http://a:1=tcp://a:5557":          {Worker: "http://a:1", Events: "tcp://a:5557"},
		"unix:/run/a.sock=tcp://[::1]:557": {Worker: "unix:/run/a.sock", Events: "tcp://[::1]:557"},
		"http://a:1=tcp://a:5557,replay=tcp://a:5558,topic=kv@events,ranks=4": {Worker: "http://a:1", Events: "tcp://a:5557", Replay: "tcp://a:5558", Topic: "kv@events", Ranks: 4},
	} {
		got, err := ParseKVRule(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v (%s), %v", text, got, got, err)
		}
		if faults := checkKVRules([]KVRule{got}); len(faults) > 0 {
			t.Errorf("%s: %v", text, faults)
		}
	}
	for _, text := range []string{"on", "http://a:1", "http://a=tcp://a:1,replay", "http://a=tcp://a:1,ranks=x", "http://a=tcp://a:1,x=1"} {
		if r, err := ParseKVRule(text); err == nil {
			if faults := checkKVRules([]KVRule{r}); len(faults) == 0 {
				t.Errorf("%s: taken as %+v", text, r)
			}
		}
	}
}

func TestKVRulesThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"auto off":                                     "auto or off is given twice",
		"http://a=tcp://a:1 http://a=tcp://a:2":        "the rule for http://a is given twice",
		"=tcp://a:1":                                   "names no worker",
		"http://a=a:1":                                 "not tcp://HOST:PORT",
		"http://a=tcp://a":                             "not tcp://HOST:PORT",
		"http://a=tcp://:5":                            "not tcp://HOST:PORT",
		"http://a=tcp://a:0":                           "port 0",
		"http://a=tcp://a:70000":                       "port 70000",
		"http://a=tcp://*:5557":                        "where an engine listens",
		"http://a=tcp://0.0.0.0:5557":                  "where an engine listens",
		"http://a=tcp://a:1,replay=tcp://*:2":          "replay:",
		"http://a=tcp://a:1,ranks=65":                  "ranks=65 is not between 1 and 64",
		"http://a=tcp://a:1,replay=tcp://b:1,ranks=-1": "ranks=-1",
	} {
		var rules []KVRule
		for word := range strings.FieldsSeq(text) {
			r, err := ParseKVRule(word)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, r)
		}
		cfg := DefaultConfig()
		cfg.KVEvents = rules
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "kv-events: ") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestWhichKVEventsAreFollowed(t *testing.T) {
	told := []KVEndpoint{{Events: "tcp://told:1"}}
	own := KVRule{Worker: "http://a", Events: "tcp://own:1", Replay: "tcp://own:9", Ranks: 2}
	owned := []KVEndpoint{{0, "tcp://own:1", "tcp://own:9", ""}, {1, "tcp://own:2", "tcp://own:10", ""}}
	for _, tt := range []struct {
		name  string
		rules []KVRule
		url   string
		want  []KVEndpoint
	}{
		{"nothing is said", nil, "http://a", told},
		{"auto", []KVRule{{All: "auto"}}, "http://a", told},
		{"off", []KVRule{{All: "off"}}, "http://a", nil},
		{"a rule of its own", []KVRule{own}, "http://a", owned},
		{"a rule for another", []KVRule{own}, "http://b", told},
		{"a rule of its own, off for others", []KVRule{{All: "off"}, own}, "http://a", owned},
		{"a rule for another, off", []KVRule{own, {All: "off"}}, "http://b", nil},
	} {
		cfg := Config{KVEvents: tt.rules}
		w := &Worker{Spec: Spec{URL: tt.url}, facts: &Facts{KVEvents: told}}
		if got := cfg.kvEndpoints(w); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := (&Config{}).kvEndpoints(&Worker{}); got != nil {
		t.Errorf("of an engine that is not known: %v", got)
	}
}
