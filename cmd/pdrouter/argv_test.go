package main

import (
	"slices"
	"strings"
	"testing"

	"pdrouter/workers"

	"github.com/spf13/pflag"
)

// serveFlags returns the flags of serve, and the intake behind them.
func serveFlags() (*pflag.FlagSet, *intake) {
	in := newIntake()
	cmd := newServeCommand(in)
	cmd.InitDefaultHelpFlag()
	return cmd.Flags(), in
}

func TestNormalise(t *testing.T) {
	tests := []struct {
		name, args, want, fault string
	}{
		{"a prefill URL stands alone", "--prefill http://p:1", "--prefill=http://p:1", ""},
		{"a port after the URL belongs to it", "--prefill http://p:1 8998", "--prefill=http://p:1,8998", ""},
		{"none after the URL belongs to it", "--prefill http://p:1 none", "--prefill=http://p:1,none", ""},
		{"prefill is repeated, each with its port", "--prefill http://p:1 8998 --prefill http://q:1 8999", "--prefill=http://p:1,8998 --prefill=http://q:1,8999", ""},
		{"a comma does what the blank does", "--prefill http://p:1,8998", "--prefill=http://p:1,8998", ""},
		{"an equals sign with a comma", "--prefill=http://p:1,8998", "--prefill=http://p:1,8998", ""},
		{"an equals sign alone", "--prefill=http://p:1", "--prefill=http://p:1", ""},
		{"a port out of range is joined, to be quoted as what it is", "--prefill http://p:1 70000", "--prefill=http://p:1,70000", ""},
		{"a negative port is joined as well", "--prefill http://p:1 -1", "--prefill=http://p:1,-1", ""},
		{"a word after the URL", "--prefill http://p:1 banana", "--prefill=http://p:1", `unexpected argument "banana" after --prefill`},
		{"a third word", "--prefill http://p:1 8998 none", "--prefill=http://p:1,8998", `unexpected argument "none" after --prefill`},
		{"a second port", "--prefill http://p:1,8998 8999", "--prefill=http://p:1,8998", `unexpected argument "8999" after --prefill`},
		{"a blank after the equals form", "--prefill=http://p:1 8998", "--prefill=http://p:1", `unexpected argument "8998" after --prefill`},
		{"two decode URLs in a row", "--decode http://d:1 http://d:2", "--decode=http://d:1", `unexpected argument "http://d:2" after --decode`},
		{"a port after a decode URL", "--decode http://d:1 8998", "--decode=http://d:1", `unexpected argument "8998"`},
		{"a list takes all up to the next flag", "--request-id-headers a b --port 1", "--request-id-headers=a --request-id-headers=b --port=1", ""},
		{"numbers in a list", "--prometheus-duration-buckets 0.1 1 5", "--prometheus-duration-buckets=0.1 --prometheus-duration-buckets=1 --prometheus-duration-buckets=5", ""},
		{"a list of a flag that is not needed", "--worker-urls http://a http://b", "--worker-urls=http://a --worker-urls=http://b", ""},
		{"keys come one by one: a stray word is no further password", "--api-key a b", "--api-key=a", `unexpected argument "b" after --api-key`},
		{"a switch takes nothing", "--log-json --port 1", "--log-json=true --port=1", ""},
		{"a switch does not eat a word", "--log-json false", "--log-json=true", `unexpected argument "false" after --log-json`},
		{"a switch with a value", "--log-json=false", "--log-json=false", ""},
		{"a negative number is a value", "--max-concurrent-requests -1", "--max-concurrent-requests=-1", ""},
		{"an empty value", "--api-key=", "--api-key=", ""},
		{"a flag is no value", "--port --host ::1", "--host=::1", "--port: needs a value"},
		{"an empty list", "--request-id-headers --port 1", "--port=1", "--request-id-headers: needs a value"},
		{"nothing after the last flag", "--prefill", "", "--prefill: needs a value"},
		{"an unknown flag takes its values along", "--prot 1 2 --host ::1", "--host=::1", "unknown flag --prot; did you mean --port?"},
		{"an unknown flag with a value", "--prot=1", "", "unknown flag --prot; did you mean --port?"},
		{"an unknown short flag", "-p 1", "", "unknown flag -p; did you mean --port?"},
		{"one dash too many", "---port 1", "", "unknown flag ---port; did you mean --port?"},
		{"two dashes alone", "-- a", "", `unknown flag --; did you mean`},
		{"a dash alone", "-", "", `unexpected argument "-"`},
		{"help", "-h", "--help=true", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			flags, _ := serveFlags()
			got, err := normalise(flags, strings.Fields(tt.args))
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("normalise(%s) = %s, want %s", tt.args, s, tt.want)
			}
			if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
				t.Errorf("normalise(%s) fails with %v, want %q", tt.args, err, tt.fault)
			}
		})
	}
}

// TestPrefillForms is BUG-014: every documented form makes a worker, anything
// else names the token at fault.
func TestPrefillForms(t *testing.T) {
	tests := []struct {
		args  string
		port  int
		fault string
	}{
		{"--prefill http://p:1", 0, ""},
		{"--prefill http://p:1 8998", 8998, ""},
		{"--prefill http://p:1 none", workers.BootstrapNone, ""},
		{"--prefill http://p:1 NONE", workers.BootstrapNone, ""},
		{"--prefill http://p:1,8998", 8998, ""},
		{"--prefill http://p:1,none", workers.BootstrapNone, ""},
		{"--prefill=http://p:1", 0, ""},
		{"--prefill=http://p:1,8998", 8998, ""},
		{"--prefill http://p:1 0", 0, `bootstrap port "0": write none if there is no port`},
		{"--prefill http://p:1 70000", 0, `bootstrap port "70000" is not between 1 and 65535`},
		{"--prefill http://p:1 -1", 0, `bootstrap port "-1" is not between 1 and 65535`},
		{"--prefill http://p:1,x", 0, `"x" is neither a bootstrap port nor none`},
		{"--prefill http://p:1,", 0, `"" is neither a bootstrap port nor none`},
		{"--prefill http://p:1,1,2", 0, `"1,2" is neither a bootstrap port nor none`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			flags, in := serveFlags()
			args, err := normalise(flags, strings.Fields(tt.args))
			if err != nil {
				t.Fatalf("normalise: %v", err)
			}
			if err := flags.Parse(args); err != nil {
				t.Fatalf("parse: %v", err)
			}
			switch {
			case tt.fault == "" && len(in.faults) > 0, tt.fault != "" && (len(in.faults) != 1 || !strings.Contains(in.faults[0].Error(), tt.fault)):
				t.Errorf("faults are %q, want %q", in.faults, tt.fault)
			case tt.fault == "":
				want := []workers.Spec{{Role: workers.Prefill, URL: "http://p:1", BootstrapPort: tt.port}}
				if !slices.Equal(in.cfg.Workers.Specs, want) {
					t.Errorf("workers are %+v, want %+v", in.cfg.Workers.Specs, want)
				}
			}
		})
	}
}

// FuzzNormalise: whatever the command line, pflag accepts what comes out, and
// nothing panics.
func FuzzNormalise(f *testing.F) {
	f.Add("--prefill\nhttp://p:1\n8998\n--decode\nhttp://d:1")
	f.Add("--prefill=http://p:1,none\n--api-key\na b\n--")
	f.Add("--request-id-headers\na\nb\n-x\n--log-json=maybe\n-h")
	f.Add("---\n-=\n--=\n--port\n-1")
	f.Fuzz(func(t *testing.T, line string) {
		flags, in := serveFlags()
		args, _ := normalise(flags, strings.Split(line, "\n"))
		if err := flags.Parse(args); err != nil && !strings.Contains(strings.Join(args, " "), "--help=") {
			t.Errorf("pflag refuses %q, made from %q: %v", args, line, err)
		}
		if flags.NArg() > 0 {
			t.Errorf("%q, made from %q, leaves %q", args, line, flags.Args())
		}
		_ = in.cfg.Workers.Validate()
	})
}
