package main

import (
	"reflect"
	"testing"
	"time"
)

func TestScheduleLeavesOneEngineOfEitherRole(t *testing.T) {
	const length = 5 * time.Minute
	kinds := map[string]int{}
	for seed := range uint64(50) {
		var until [2 * perRole]time.Duration
		for _, e := range schedule(random(seed, 0), length) {
			kinds[e.kind]++
			if e.until > length || e.at >= e.until {
				t.Fatalf("seed %d: %v does not fit into %v", seed, e, length)
			}
			if e.kind == garble {
				continue
			}
			if until[e.engine] > e.at {
				t.Fatalf("seed %d: %v, while another trouble of the engine lasts until %v", seed, e, until[e.engine])
			}
			if fromFlag(e.engine) && (e.kind == remove || e.kind == retire) {
				t.Fatalf("seed %d: %v, which is not in the file", seed, e)
			}
			until[e.engine] = e.until
			well := 0
			for i := e.engine / perRole * perRole; i < e.engine/perRole*perRole+perRole; i++ {
				if until[i]+respite <= e.at || until[i] == 0 {
					well++
				}
			}
			if well == 0 {
				t.Fatalf("seed %d: after %v no engine of the role is well: %v", seed, e, until)
			}
		}
	}
	for _, kind := range []string{kill, freeze, fail, remove, retire, garble} {
		if kinds[kind] < 50 {
			t.Errorf("%d events of kind %s in 50 schedules of %v, want more", kinds[kind], kind, length)
		}
	}
}

func TestScheduleFollowsFromTheSeed(t *testing.T) {
	a, b := schedule(random(7, 0), time.Minute), schedule(random(7, 0), time.Minute)
	if len(a) < 20 || !reflect.DeepEqual(a, b) {
		t.Errorf("%d and %d events of one seed, want the same ones", len(a), len(b))
	}
	if reflect.DeepEqual(a, schedule(random(8, 0), time.Minute)) {
		t.Error("another seed gives the same events")
	}
}
