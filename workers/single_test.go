package workers

import (
	"context"
	"errors"
	"testing"
)

func TestLeaseOne(t *testing.T) {
	m := Facts{Dialect: "sglang", Models: []string{"m"}}
	n := Facts{Dialect: "vllm-nixl", Models: []string{"n", "m"}}
	theFirst := &Worker{} // stands for prefill-0
	tests := []struct {
		name  string
		busy  []int // workers that have a lease already
		want  Single
		id    string // "": none, and err
		err   error
		facts []Facts // by worker: p0, d0, p1, d1; the zero one is not ready
	}{
		{"the first that is free", nil, Single{Role: Prefill}, "prefill-0", nil, []Facts{m, m, m, m}},
		{"the one that has least to do", []int{0}, Single{Role: Prefill}, "prefill-1", nil, []Facts{m, m, m, m}},
		{"the one that was asked longer ago, of two", []int{2, 0}, Single{Role: Prefill}, "prefill-1", nil, []Facts{m, m, m, m}},
		{"the first, busy or not", []int{0}, Single{Role: Prefill, First: true}, "prefill-0", nil, []Facts{m, m, m, m}},
		{"another than the one to avoid", []int{2}, Single{Role: Prefill, Avoid: theFirst}, "prefill-1", nil, []Facts{m, m, m, m}},
		{"the one to avoid, if there is no other", nil, Single{Role: Prefill, Avoid: theFirst}, "prefill-0", nil, []Facts{m, m, {}, m}},
		{"the first that is ready", nil, Single{Role: Prefill, First: true}, "prefill-1", nil, []Facts{{}, m, m, m}},
		{"the other role", nil, Single{Role: Decode}, "decode-0", nil, []Facts{m, m, m, m}},
		{"one that serves the model", nil, Single{Role: Prefill, Model: "n"}, "prefill-1", nil, []Facts{m, m, n, n}},
		{"one of the dialect", nil, Single{Role: Prefill, Dialect: "vllm-nixl"}, "prefill-1", nil, []Facts{m, m, n, n}},
		{"one without a partner", nil, Single{Role: Prefill, Model: "m"}, "prefill-0", nil, []Facts{m, {}, {}, {}}},
		{"none of the role", nil, Single{Role: Prefill}, "", &NoneError{Role: Prefill}, []Facts{{}, m, {}, m}},
		{"none of the dialect", nil, Single{Role: Decode, Dialect: "vllm-nixl"}, "", &NoneError{Role: Decode}, []Facts{m, m, m, m}},
		{"a model that nobody serves", nil, Single{Role: Prefill, Model: "x"}, "", ErrUnknownModel, []Facts{m, m, m, m}},
		{"nobody is there yet", nil, Single{Role: Prefill, Model: "x"}, "", &NoneError{Role: Prefill}, []Facts{{}, {}, {}, {}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := readied(t, nil, m, m)
			for i, w := range r.all {
				if w.facts = nil; tt.facts[i].Dialect == "" {
					r.learn(w.looks, w, nil, errors.New("not there"))
					continue
				}
				r.learn(w.looks, w, &tt.facts[i], nil)
			}
			for _, i := range tt.busy {
				r.countLocked(&Lease{}, &r.all[i].load, nil)
			}

			if tt.want.Avoid == theFirst {
				tt.want.Avoid = r.all[0]
			}

			lease, err := r.LeaseOne(t.Context(), tt.want)

			none := &NoneError{}
			switch {
			case tt.id != "":
				if err != nil || lease.Worker.ID != tt.id {
					t.Fatalf("LeaseOne(%+v) = %+v, %v, want %s", tt.want, lease, err, tt.id)
				}
				before := lease.Worker.load.InFlight
				lease.Done(nil)
				if after := lease.Worker.load.InFlight; after != before-1 {
					t.Errorf("in flight = %d after Done, was %d", after, before)
				}
			case errors.As(tt.err, &none):
				got := &NoneError{}
				if !errors.As(err, &got) || *got != *none {
					t.Errorf("LeaseOne(%+v) = %v, want %v", tt.want, err, none)
				}
			case !errors.Is(err, tt.err):
				t.Errorf("LeaseOne(%+v) = %v, want %v", tt.want, err, tt.err)
			}
		})
	}
}

func TestLeaseOneOfBarred(t *testing.T) {
	r := readied(t, nil, Facts{Dialect: "sglang", Models: []string{"m"}}, Facts{Dialect: "sglang", Models: []string{"m"}})
	r.Bar(r.all[0], Breaking, Forever(), "broken")

	for i, want := range []string{"prefill-1", "prefill-0"} {
		lease, err := r.LeaseOne(t.Context(), Single{Role: Prefill, First: true})
		if err != nil || lease.Worker.ID != want {
			t.Fatalf("LeaseOne, %d of its two barred, = %+v, %v, want %s", i+1, lease, err, want)
		}
		lease.Done(errors.New("nobody judges this"))
		r.Bar(lease.Worker, Breaking, Forever(), "broken")
	}
}

func TestLeaseOneForNobody(t *testing.T) {
	r := readied(t, nil, Facts{Dialect: "sglang", Models: []string{"m"}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := r.LeaseOne(ctx, Single{Role: Prefill}); !errors.Is(err, context.Canceled) {
		t.Errorf("LeaseOne of one who left = %v, want context.Canceled", err)
	}
}
