package policy

import "pdrouter/workers"

// Lookup returns the policy of that name.
func Lookup(name string) (workers.Chooser, bool) {
	switch name {
	case "prefix_hash":
		return PrefixHash{}, true
	default:
		return nil, false
	}
}
