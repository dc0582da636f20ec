package policy

// shared finds the blocks that (nearly) every prompt begins with: a system
// prompt, or the tools of the one application that there is. Any worker has
// them soon, so that they are no reason to prefer one.
type shared struct {
	chain []uint64
	share []float32 // of the prompts of late, those with the block at that place
}

const (
	// sharedMost bounds how much of prompts is looked at, in bytes.
	sharedMost = 128 << 10

	// sharedBy is the share of prompts from which a block counts as shared.
	sharedBy = 0.9

	// sharedPace is the weight of one prompt: some hundred count.
	sharedPace = 0.01
)

func newShared(blockBytes int) shared {
	most := max(sharedMost/blockBytes, 1)
	return shared{chain: make([]uint64, 0, most), share: make([]float32, 0, most)}
}

// see takes in a prompt.
func (s *shared) see(chain []uint64) {
	chain = chain[:min(len(chain), cap(s.chain))]
	same := 0
	for same < len(chain) && same < len(s.chain) && chain[same] == s.chain[same] {
		s.share[same] += sharedPace * (1 - s.share[same])
		same++
	}
	for i := same; i < len(s.chain); i++ {
		s.share[i] -= sharedPace * s.share[i]
		if s.share[i] < 0.5 { // what is followed here may be another prompt's
			s.chain, s.share = s.chain[:i], s.share[:i]
			break
		}
	}
	if same == len(s.chain) {
		for ; same < len(chain); same++ {
			s.chain, s.share = append(s.chain, chain[same]), append(s.share, 0.5)
		}
	}
}

// blocks returns how many of the first blocks of chain nearly all share.
func (s *shared) blocks(chain []uint64) int {
	n := 0
	for n < len(chain) && n < len(s.chain) && chain[n] == s.chain[n] && s.share[n] >= sharedBy {
		n++
	}
	return n
}
