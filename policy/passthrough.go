package policy

import "pdrouter/workers"

// First takes the first worker; smg's passthrough.
type First struct{}

// Pick implements Picker.
func (First) Pick(_ *workers.Need, _ []*workers.Load, in partners) int { return in.nth(0) }
