package workers

// A Memory is what a Chooser knows, in a form that outlives the router: of one
// worker, or of all.
type Memory struct {
	// Blocks are those that the worker is believed to hold, the oldest first;
	// of all workers, those that most prompts begin with. Some may be there
	// more than once: the last place counts.
	Blocks []uint64

	// Learnt are finite numbers by what they mean, which is for the Chooser to
	// know. It takes what it understands and leaves the rest.
	Learnt map[string][]float64
}

// An Overall is what a Chooser knows of all workers.
type Overall struct {
	Memory

	// Kind tells how blocks are hashed: those of another kind mean nothing.
	Kind uint64

	// Changes is another number whenever anything that is remembered, of
	// whichever worker, has changed.
	Changes uint64
}

// A Rememberer is a Chooser that can be told after a restart of the router what
// it knew before. Its methods may be called by any goroutine, and are called
// outside the registry's lock; they must not hold up a choice for long.
type Rememberer interface {
	Overall() Overall

	// Adopt takes in what Overall has told. It is called before the first
	// choice.
	Adopt(m Memory)

	// Remember returns what is known of a worker in its seat. Its Blocks are
	// appended to dst.
	Remember(seat int, w *Worker, dst []uint64) Memory

	// Recall takes in what Remember has told, for the worker that has that seat
	// now, and returns how many blocks are known of it then. It keeps no part of
	// m.
	Recall(seat int, w *Worker, m Memory) (blocks int)
}
